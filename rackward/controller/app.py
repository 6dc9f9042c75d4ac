"""The controller: one process for a cluster, until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from placement_core import RackwardError, ReplicaLists
from placement_core.locators import RackLocator
from placement_core.placers import ReplicaPlacer
from rackward.admin import AdminError, CredentialsError, UnauthorizedError, read_state
from rackward.admin.configs import default_min_in_sync
from rackward.controller.config import Door, Settings
from rackward.controller.http import ControllerCollector, Figures, Health, HealthPort
from rackward.controller.leader_layout import lay_out
from rackward.controller.lease import SESSION_MS, LeaseHolder
from rackward.controller.pending_replicas import INTENTS_TOPIC
from rackward.controller.reconciler import Connection, Keeper, Kept, LiveCluster, Step
from rackward.placement_service import (
    Address,
    ListeningError,
    MutualTls,
    PlacementQuestion,
    PlacementService,
    ServiceCounts,
    answer_question,
)

# ---- The placement service in a thread of its own, with the configured placer.

START_SECONDS = 60.0
"""How long it may take to listen, and to end: a moment, unless the machine is very busy."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Who places, with what racks, and whether with fewer brokers than replicas.

    ``placer`` makes one for each question: without a seed of its own it draws another each time,
    so that topics of one shape do not all begin at one broker.
    """

    placer: Callable[[], ReplicaPlacer]
    locator: RackLocator
    ignore_racks: bool
    under_replicated: bool


class LivePlacing:
    """Answers questions with the cluster as it is when they are asked; in any thread."""

    def __init__(self, connection: Connection, placement: Placement) -> None:
        self._connection, self._placement = connection, placement
        self._lock = threading.Lock()

    def __call__(self, question: PlacementQuestion) -> ReplicaLists:
        """See :data:`rackward.placement_service.Placing`. Raises RackwardError."""
        placement = self._placement
        with self._lock:
            state = self._connection.use(lambda admin: read_state(admin, ongoing=False))
            least = None
            if placement.under_replicated:
                # The cluster's: nobody has said yet which topic it is.
                broker = min(state.view.racks())
                least = self._connection.use(lambda admin: default_min_in_sync(admin, broker))
        return answer_question(
            question,
            state.view,
            placement.placer(),
            locator=placement.locator,
            ignore_racks=placement.ignore_racks,
            min_insync_replicas=least,
        )


class ServiceThread:
    """A PlacementService that listens at ``door``; see its ``listening`` for what is raised.

    ListeningError too where it does not listen after START_SECONDS.
    """

    def __init__(self, placing: Callable[[PlacementQuestion], ReplicaLists], door: Door) -> None:
        self._service = PlacementService(placing)
        self._door = door
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._started = threading.Event()
        self._error: BaseException | None = None
        self._address: Address | None = None
        self._thread = threading.Thread(target=self._run, name="rackward-placement", daemon=True)
        self._thread.start()
        if not self._started.wait(START_SECONDS):
            raise ListeningError(
                f"{Address(door.host, door.port)} is not listened at after {START_SECONDS:g} s: "
                "is its name hard to resolve?"
            )
        if self._error is not None:
            raise self._error

    @property
    def address(self) -> Address:
        """What was bound."""
        assert self._address is not None
        return self._address

    @property
    def counts(self) -> ServiceCounts:
        """What it has done so far."""
        return self._service.counts

    def close(self) -> None:
        """Stop; what is under way may finish."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(START_SECONDS)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:  # noqa: BLE001 - raised again where it was started
            self._error = error
        finally:
            self._started.set()
            self._loop.close()

    async def _serve(self) -> None:
        door = self._door
        tls = (
            MutualTls(door.ca_file, door.cert_file, door.key_file)
            if door.ca_file is not None and door.cert_file is not None
            else None
        )
        async with self._service.listening(door.host, door.port, tls) as address:
            self._address = address
            self._started.set()
            await self._stop.wait()


TURN_SECONDS = 2.0
LONGEST_BACK_OFF = 5.0
READY_SECONDS = 30.0
"""A cluster that has answered so lately is there."""

log = logging.getLogger("rackward.controller")


@dataclass(frozen=True, slots=True)
class Plugins:
    """What the settings name: ``placer`` makes one anew each time."""

    placer: Callable[[], ReplicaPlacer]
    locator: RackLocator


class Controller:
    """Keeps intents, answers for placements, lays leaders out; see `Settings`.

    ``timeout``, in seconds, is for each question to the cluster. ``session_ms`` after a controller
    was killed another one takes over. ``clock`` counts seconds, whatever is done to the time of
    day; ``now`` is that, in seconds since 1970; ``wait`` waits so many seconds; ``step``: see
    `Keeper`.
    """

    def __init__(
        self,
        settings: Settings,
        plugins: Plugins,
        timeout: float,
        *,
        session_ms: int = SESSION_MS,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        wait: Callable[[float], None] = time.sleep,
        step: Callable[[Step], None] = lambda _: None,
    ) -> None:
        self._settings, self._plugins, self._timeout = settings, plugins, timeout
        self._clock, self._now, self._wait, self._step = clock, now, wait, step
        self._session_ms = session_ms
        self._service: ServiceThread | None = None
        self._keeper: Keeper | None = None
        self._answered: float | None = None
        self._answered_at: float | None = None
        self._turns = self._failures = self._failed_in_a_row = self._layouts = 0
        self._said: type[RackwardError] | None = None
        self._next_layout = clock() + settings.leaders.every if settings.leaders else None

    def run(self) -> None:
        """Go on until something is raised: a signal, or an error that waiting does not mend.

        A cluster that does not answer is one that will. Raises RackwardError, for a port that
        cannot be had and for credentials that the cluster does not take.
        """
        with ExitStack() as stack:
            self._open_doors(stack)
            cluster = LiveCluster(self._settings.properties, self._timeout)
            stack.callback(cluster.close)
            lease = self._joined(cluster)
            stack.callback(lease.close)
            locator = None if self._settings.ignore_racks else self._plugins.locator
            self._keeper = Keeper(
                cluster,
                lease,
                locator,
                self._clock,
                at_once=self._settings.partitions_at_once,
                throttle=self._settings.throttle,
                step=self._step,
            )
            while True:
                self._turn(self._keeper, cluster)

    def figures(self) -> Figures:
        """What it has done so far."""
        keeper = self._keeper
        return Figures(
            kept=keeper.kept if keeper is not None else Kept(),
            asked=keeper.asked if keeper is not None else 0,
            turns=self._turns,
            failures=self._failures,
            answered=self._answered_at,
            layouts=self._layouts,
            service=self._service.counts if self._service is not None else None,
        )

    def health(self) -> Health:
        """Whether the cluster has answered lately, and who keeps the intents."""
        now = self.figures()
        age = None if self._answered is None else self._clock() - self._answered
        return Health(
            ready=age is not None and age < READY_SECONDS,
            facts={
                "cluster_answered_seconds_ago": None if age is None else round(age, 1),
                "keeps_intents": now.kept.held,
                "intents": now.kept.intents,
                "partitions_short": now.kept.open,
                "placeholders_waiting": now.kept.waiting,
            },
        )

    def _open_doors(self, stack: ExitStack) -> None:
        settings = self._settings
        if settings.service is not None:
            connection = Connection(settings.properties, self._timeout)
            stack.callback(connection.close)
            placement = Placement(
                self._plugins.placer,
                self._plugins.locator,
                settings.ignore_racks,
                settings.under_replicated,
            )
            self._service = ServiceThread(LivePlacing(connection, placement), settings.service)
            stack.callback(self._service.close)
        if settings.health is not None:
            registry = CollectorRegistry()
            registry.register(ControllerCollector(self.figures))
            door = settings.health
            port = HealthPort(door.host, door.port, self.health, registry)
            stack.callback(port.close)
            log.info("health and metrics are at http://%s", port.address)

    def _joined(self, cluster: LiveCluster) -> LeaseHolder:
        """In the group of controllers, once the cluster answers."""
        while True:
            try:
                itself = cluster.ensure_topic()
                if itself is not None:
                    cluster.write([itself])
                name = f"{socket.gethostname()}-{os.getpid()}"
                lease = LeaseHolder(self._settings.properties, name, self._session_ms)
            except AdminError as error:
                self._failed(error)
            else:
                self._succeeded()
                log.info("in the group of controllers; intents are in %s", INTENTS_TOPIC)
                return lease

    def _turn(self, keeper: Keeper, cluster: LiveCluster) -> None:
        try:
            self._turns += 1
            keeper.turn(TURN_SECONDS)
            self._lay_out(keeper, cluster)
        except RackwardError as error:
            self._failed(error)
        else:
            self._succeeded()

    def _lay_out(self, keeper: Keeper, cluster: LiveCluster) -> None:
        leaders = self._settings.leaders
        if leaders is None or self._next_layout is None or not keeper.kept.held:
            return
        if self._clock() < self._next_layout:
            return
        self._next_layout = self._clock() + leaders.every
        locator = self._plugins.locator
        done = cluster.connection.use(lambda admin: lay_out(admin, leaders, locator))
        self._layouts += done is not None

    def _failed(self, error: RackwardError) -> None:
        if isinstance(error, CredentialsError | UnauthorizedError) and self._answered is None:
            raise error
        self._failures += 1
        self._failed_in_a_row += 1
        if self._said is not type(error):
            self._said = type(error)
            log.warning("%s; trying again", error)
        self._wait(min(LONGEST_BACK_OFF, 0.5 * self._failed_in_a_row))

    def _succeeded(self) -> None:
        if self._failed_in_a_row:
            log.info("the cluster answers again, after %d failures", self._failed_in_a_row)
        self._failed_in_a_row, self._said = 0, None
        self._answered, self._answered_at = self._clock(), self._now()
