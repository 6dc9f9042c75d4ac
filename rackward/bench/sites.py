"""Where groups are measured: a cluster that is started for them, or one that is there before."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rackward.bench import BenchError
from rackward.bench.measured import Progress
from rackward.bench.traffic import client_rack, client_racks
from rackward.kafka import connect, read_state
from rackward.testing import Cluster, DockerCluster, LocalCluster

MAX_RACKS = 6
"""Two members run per rack and strategy; more would overload one machine."""

SERVER_PROPERTIES = {
    # There is a listener per strategy and rack: one network thread each is enough.
    "num.network.threads": "1",
    # The members of a group start within a second, so they form it in one rebalance.
    "group.initial.rebalance.delay.ms": "1000",
    # By default 9 s pass until the partitions of a dead broker get new leaders.
    "broker.session.timeout.ms": "6000",
}


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster to measure on.

    ``cluster`` is None for an existing cluster, whose brokers and leaders are left alone.
    ``racks`` maps broker ids to racks, without brokers that have none.
    """

    description: str
    bootstrap_servers: str
    racks: Mapping[int, str]
    cluster: Cluster | None = None

    @property
    def own_cluster(self) -> Cluster:
        """The cluster that was started for the measurement."""
        assert self.cluster is not None
        return self.cluster

    @property
    def rack_names(self) -> list[str]:
        """The distinct racks, sorted."""
        return sorted(set(self.racks.values()))

    def bootstrap(self, slot: str, rack: str) -> str:
        """Return the bootstrap servers for the members in ``rack`` of the strategy in ``slot``."""
        if self.cluster is None:
            return self.bootstrap_servers
        return self.cluster.bootstrap(client_rack(slot, rack))


def slot_name(index: int) -> str:
    """Return the name under which brokers count the bytes of a strategy."""
    return f"s{index}"


@contextmanager
def own_site(
    racks: Sequence[str],
    slots: int,
    logs: Path,
    progress: Progress,
    *,
    docker: bool = False,
    server_properties: Mapping[str, str] | None = None,
) -> Iterator[Site]:
    """Start a cluster with a broker per item of ``racks``, which counts ``slots`` strategies apart.

    At the end, the logs of the brokers are appended to files in ``logs``.
    """
    progress.status("Starting Kafka")
    cluster: Cluster
    with (DockerCluster if docker else LocalCluster)(
        racks,
        client_racks=client_racks(map(slot_name, range(slots)), sorted(set(racks))),
        server_properties={**SERVER_PROPERTIES, **(server_properties or {})},
        progress=progress.log,
    ) as cluster:
        try:
            known = {broker: rack for broker, rack in cluster.racks.items() if rack is not None}
            description = "a Docker cluster" if docker else "a local cluster"
            yield Site(description, cluster.bootstrap_servers, known, cluster)
        finally:
            for broker in cluster.racks:
                with (logs / f"broker-{broker}.log").open("a", encoding="utf-8") as file:
                    file.write(cluster.log(broker))


def existing_site(bootstrap_servers: str) -> Site:
    """Return an existing cluster. Raises BenchError if groups cannot be compared on its racks."""
    with connect({}, bootstrap_servers) as admin:
        view = read_state(admin, [], reassignments=False).view
    racks = {broker.id: broker.rack for broker in view.brokers if broker.rack is not None}
    names = sorted(set(racks.values()))
    if len(names) < 2:
        reported = f"only rack {names[0]!r}" if names else "no rack"
        raise BenchError(
            f"the brokers at {bootstrap_servers} have {reported}: at least two racks are needed; "
            "set broker.rack in the brokers' configuration"
        )
    if len(names) > MAX_RACKS:
        raise BenchError(
            f"the brokers at {bootstrap_servers} have {len(names)} racks: two members per rack and "
            f"strategy are started, for at most {MAX_RACKS} racks"
        )
    if any(name.startswith("/") for name in names):
        raise BenchError(
            f"the brokers at {bootstrap_servers} have racks with levels ({names[0]}): only racks "
            "without levels are supported"
        )
    return Site(f"the cluster at {bootstrap_servers}", bootstrap_servers, racks)


@contextmanager
def log_folder(keep: Path | None) -> Iterator[Path]:
    """Yield the folder for logs: ``keep``, or a temporary folder that is removed at the end."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="rackward-logs-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
