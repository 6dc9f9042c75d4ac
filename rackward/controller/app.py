"""The controller process: reconciler, placement service, leaders that follow, health port."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass

from prometheus_client import CollectorRegistry

from assignors.connection import kafka_python_settings
from placement_core import ClusterView, RackwardError, ReplicaLists
from placement_core.locators import RackLocator
from placement_core.placers import ReplicaPlacer
from rackward.config_files import ConfigError
from rackward.controller.config import ControllerConfig
from rackward.controller.leader_follower import LeaderFollower
from rackward.controller.lease import (
    HEARTBEAT_SECONDS,
    ControllerCluster,
    Lease,
    LeaseLostError,
    ReconnectingAdmin,
    restore_topic,
)
from rackward.controller.metrics import ControllerMetrics, MetricsCollector
from rackward.controller.reconcile import Reconciler, ReconcileStatus
from rackward.health import HealthServer, Readiness
from rackward.kafka import (
    AdminConnection,
    AdminError,
    AdminTimeoutError,
    CredentialsError,
    UnauthorizedError,
    read_state,
)
from rackward.kafka.configs import read_default_min_isr
from rackward.lead import GroupLeader
from rackward.lead.status import status_document
from rackward.placement_service import (
    PlacementRequest,
    PlacementService,
    ServiceThread,
    place_replicas,
)
from rackward.placement_service.server import open_listener
from rackward.topics.pending_replicas import CONTROLLER_GROUP, PENDING_REPLICAS_TOPIC
from rackward.units import Deadline

POLL_SECONDS = 2.0
MAX_BACKOFF_SECONDS = 5.0
READY_SECONDS = 30.0
"""The controller is ready if the cluster has responded within this time."""

log = logging.getLogger("rackward.controller")


@dataclass(frozen=True, slots=True)
class Plugins:
    """The plug-ins that the configuration names.

    ``placer`` creates a new placer for each request: without a configured seed each one draws its
    own, so that topics of one shape do not all begin on the same broker.
    """

    placer: Callable[[], ReplicaPlacer]
    locator: RackLocator


class Controller:
    """Adds pending replicas, serves placements, moves leaders and leads groups, as configured.

    ``timeout``, in seconds, applies to each operation on the cluster. ``clock`` counts monotonic
    seconds.
    """

    def __init__(
        self,
        config: ControllerConfig,
        plugins: Plugins,
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config, self._plugins, self._timeout, self._clock = config, plugins, timeout, clock
        self._service: PlacementService | None = None
        self._reconciler: Reconciler | None = None
        self._last_response: float | None = None
        self._last_response_at: float | None = None
        self._passes = self._failed_passes = self._failures_in_a_row = 0
        self._logged_failure: type[RackwardError] | None = None
        self._last_error = ""
        self._follower = (
            LeaderFollower(config.leaders, plugins.locator, clock) if config.leaders else None
        )
        self._leader: GroupLeader | None = None

    def run(self) -> None:
        """Run until a signal raises, or an error that retrying does not help.

        Raises RackwardError if a port cannot be opened, and if the cluster rejects the credentials
        at the start. Other errors of the cluster are logged and retried.
        """
        with ExitStack() as stack:
            self._start_servers(stack)
            admin = ReconnectingAdmin(self._config.properties, self._timeout)
            stack.callback(admin.close)
            lease = self._join(admin)
            stack.callback(lease.close)
            self._start_heartbeats(lease, stack)
            cluster = ControllerCluster(admin, lease)
            stack.callback(cluster.close)
            stack.callback(self._stop_leading)
            self._reconciler = Reconciler(
                cluster,
                lease,
                None if self._config.placement.ignore_racks else self._plugins.locator,
                self._clock,
                max_in_progress=self._config.under_replicated.partitions_at_once,
                throttle=self._config.under_replicated.rate,
            )
            while True:
                self._run_pass(self._reconciler, cluster)

    def metrics(self) -> ControllerMetrics:
        """Return the present metrics."""
        reconciler = self._reconciler
        return ControllerMetrics(
            status=reconciler.status if reconciler is not None else ReconcileStatus(),
            requested=reconciler.requested if reconciler is not None else 0,
            passes=self._passes,
            failed_passes=self._failed_passes,
            last_response=self._last_response_at,
            leaders=self._follower.status if self._follower is not None else None,
            led=self._leader.status() if self._leader is not None else (),
            service=self._service.metrics if self._service is not None else None,
        )

    def readiness(self) -> Readiness:
        """Return whether the cluster has responded recently, and the reconciler's status."""
        age = None if self._last_response is None else self._clock() - self._last_response
        return Readiness(
            ready=age is not None and age < READY_SECONDS,
            details={
                "seconds_since_last_response": None if age is None else round(age, 1),
                **asdict(self.metrics().status),
            },
        )

    def status(self) -> dict[str, object]:
        """Return what the controller does and the groups that it leads, as values for JSON."""
        metrics = self.metrics()
        return {
            **self.readiness().details,
            "passes": metrics.passes,
            "failed_passes": metrics.failed_passes,
            "last_error": self._last_error,
            "reassignments": metrics.requested,
            "leaders": metrics.leaders.document() if metrics.leaders is not None else None,
            **status_document(metrics.led),
        }

    def _start_servers(self, stack: ExitStack) -> None:
        config = self._config
        if config.service is not None:
            admin = ReconnectingAdmin(config.properties, self._timeout)
            stack.callback(admin.close)
            self._service = PlacementService(placement_handler(admin, config, self._plugins))
            listen = config.service
            thread = ServiceThread(self._service, listen.host, listen.port, listen.tls)
            stack.callback(thread.close)
        if config.health is not None:
            registry = CollectorRegistry()
            registry.register(MetricsCollector(self.metrics))
            listen = config.health
            address = (listen.host, listen.port)
            server = HealthServer(*address, self.readiness, self.status, registry, listen.tls)
            stack.callback(server.close)
            scheme = "http" if listen.tls is None else "https"
            log.info("health and metrics: %s://%s", scheme, server.address)

    def _join(self, admin: ReconnectingAdmin) -> Lease:
        """Join the group of controllers, retrying until the cluster responds."""
        while True:
            try:
                restore_topic(admin)
                lease = Lease(self._config.properties, f"{socket.gethostname()}-{os.getpid()}")
            except AdminError as error:
                self._on_failure(error)
            else:
                self._on_success()
                log.info(
                    "joined group %s; pending replicas are stored in %s",
                    CONTROLLER_GROUP,
                    PENDING_REPLICAS_TOPIC,
                )
                return lease

    def _start_heartbeats(self, lease: Lease, stack: ExitStack) -> None:
        """Keep the lease in a thread of its own, beside passes that take long."""
        ended = threading.Event()

        def run() -> None:
            while not ended.wait(HEARTBEAT_SECONDS):
                self.heartbeat(lease)

        thread = threading.Thread(target=run, name="rackward-lease", daemon=True)
        stack.callback(thread.join)
        stack.callback(ended.set)
        thread.start()

    def heartbeat(self, lease: Lease) -> None:
        """Keep the lease if the pass takes long, and note that the cluster responds."""
        try:
            if lease.heartbeat():
                self._note_response()
        except RackwardError as error:
            # The pass fails, too, as soon as it needs the lease.
            log.debug("the lease is not confirmed: %s", error)

    def _run_pass(self, reconciler: Reconciler, cluster: ControllerCluster) -> None:
        try:
            self._passes += 1
            reconciler.run_once(POLL_SECONDS)
            active = reconciler.status.active
            self._follow(cluster, active=active)
            self._lead_groups(active=active)
        except LeaseLostError as error:
            log.info("the pass ends: %s", error)
            self._on_success()
        except RackwardError as error:
            self._on_failure(error)
        else:
            self._on_success()

    def _follow(self, cluster: ControllerCluster, *, active: bool) -> None:
        """Move leaders while this controller is the active one."""
        follower = self._follower
        if follower is None:
            return
        if active:
            cluster.admin.run(lambda admin: follower.run_once(admin, cluster))
        else:
            follower.stand_by()

    def _lead_groups(self, *, active: bool) -> None:
        """Lead the configured groups while this controller is the active one."""
        config = self._config.lead
        if not active:
            self._stop_leading()
        elif config is not None and self._leader is None:
            self._leader = GroupLeader(self._config.properties, config.groups, config.options)

    def _stop_leading(self) -> None:
        leader, self._leader = self._leader, None
        if leader is not None:
            leader.stop()

    def _on_failure(self, error: RackwardError) -> None:
        rejected = isinstance(error, CredentialsError | UnauthorizedError)
        if rejected and self._last_response is None:
            raise error
        self._failed_passes += 1
        self._failures_in_a_row += 1
        self._last_error = str(error)
        if self._logged_failure is not type(error):
            self._logged_failure = type(error)
            log.warning("%s; retrying", error)
        time.sleep(min(MAX_BACKOFF_SECONDS, 0.5 * self._failures_in_a_row))

    def _on_success(self) -> None:
        if self._failures_in_a_row:
            log.info("the cluster responds again: failures=%d", self._failures_in_a_row)
        self._failures_in_a_row, self._logged_failure = 0, None
        self._note_response()

    def _note_response(self) -> None:
        self._last_response, self._last_response_at = self._clock(), time.time()


def check_config(config: ControllerConfig) -> None:
    """Raise RackwardError for what `Controller.run` would refuse before it connects to the cluster.

    Ports are not opened, since a controller that runs may have them.
    """
    kafka_python_settings(config.properties)
    for name, listen in (("service", config.service), ("health", config.health)):
        if listen is None:
            continue
        try:
            if listen.tls is not None:
                listen.tls.server_context()
            beyond_loopback = name == "health" or listen.tls is not None
            asyncio.run(open_listener(listen.host, 0, mutual_tls=beyond_loopback)).close()
        except RackwardError as error:
            raise ConfigError(f"{name}: {error}") from error


def placement_handler(
    admin: ReconnectingAdmin, config: ControllerConfig, plugins: Plugins
) -> Callable[[PlacementRequest], ReplicaLists]:
    """Return the function that answers placement requests with the cluster's present state.

    It may be called from several threads. Raises RackwardError.
    """
    lock = threading.Lock()

    def read(client: AdminConnection, deadline: Deadline) -> tuple[ClusterView, int | None]:
        with client.within(deadline):
            view = read_state(client, reassignments=False).view
            if not config.under_replicated.allowed:
                return view, None
            # The cluster's default: the request does not name its topic.
            return view, read_default_min_isr(client, min(view.racks()))

    def place(request: PlacementRequest) -> ReplicaLists:
        deadline = request.deadline or Deadline.after(admin.timeout)
        if not lock.acquire(timeout=deadline.remaining):
            raise AdminTimeoutError(
                f"the cluster's state was not read within {deadline.seconds:.3g} s, since other "
                "requests still wait for it: is the cluster up?"
            )
        try:
            view, min_isr = admin.run(lambda client: read(client, deadline))
        finally:
            lock.release()
        return place_replicas(
            request,
            view,
            plugins.placer(),
            locator=plugins.locator,
            ignore_racks=config.placement.ignore_racks,
            min_insync_replicas=min_isr,
        )

    return place
