"""The placement service in a thread of its own, with the configured placer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass

from placement_core import ReplicaLists
from placement_core.locators import RackLocator
from placement_core.placers import ReplicaPlacer
from rackward.admin import read_state
from rackward.admin.configs import default_min_in_sync
from rackward.controller.cluster import Connection
from rackward.controller.settings import Door
from rackward.placement_service import (
    Address,
    ListeningError,
    MutualTls,
    PlacementQuestion,
    PlacementService,
    ServiceCounts,
    answer_question,
)

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
