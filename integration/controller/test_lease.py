"""Which records a controller has after joining, leaving, dying and creating in every order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import permutations

import pytest

from integration.support.controllers import SHORT_SESSION
from integration.support.topics import delete_topic
from rackward.controller.lease import Lease
from rackward.kafka import connect, read_state
from rackward.testing import Cluster
from rackward.topics.pending_replicas import (
    PENDING_REPLICAS_TOPIC,
    PendingReplicas,
    PendingReplicasWriter,
    ensure_topic,
    layout_digest,
)
from tests.support.waiting import TEST_TIMEOUT


class Controllers:
    """The leases of some controllers, and the records that one of them has to have."""

    def __init__(self, cluster: Cluster) -> None:
        self._properties = {"bootstrap.servers": cluster.bootstrap_servers}
        self._cluster = cluster
        self._leases: dict[str, Lease] = {}
        self._records: set[str] = set()

    def create(self) -> None:
        """Create the topic unless it exists, and write one more record."""
        with connect(self._properties, timeout=TEST_TIMEOUT) as admin:
            bootstrap = ensure_topic(admin, read_state(admin))
        name = f"r{len(self._records)}"
        record = PendingReplicas(name, "absent", None, 3, (0,), layout_digest({0: (0, 1)}))
        writer = PendingReplicasWriter(self._properties, TEST_TIMEOUT)
        writer.write([record, *([bootstrap] if bootstrap is not None else [])])
        writer.close()
        self._records.add(record.key)

    def join(self, name: str) -> None:
        """Add a controller."""
        with SHORT_SESSION():
            self._leases[name] = Lease(self._properties, name)

    def leave(self, name: str) -> None:
        """Close the lease of a controller."""
        self._leases.pop(name).close()

    def die(self, name: str) -> None:
        """Stop the controller that has joined as ``name`` without leaving the group."""
        lease = self._leases.pop(name)
        coordinator = lease._consumer._coordinator
        coordinator._generation = type(coordinator._generation).NO_GENERATION
        lease.close()

    def check(self, after: str) -> None:
        """Wait until exactly one controller is ready, with all records."""
        if not self._leases or not self._records:
            return
        deadline = time.monotonic() + TEST_TIMEOUT
        while True:
            for lease in self._leases.values():
                lease.poll(0.1)
            ready = [each for each in self._leases.values() if each.ready]
            missing = [self._records - set(each.records) for each in ready]
            assert not any(missing), f"after {after}: ready without {missing}"
            if len(ready) == 1 and ready[0].verify_ownership():
                progress = ready[0].progress
                assert progress is not None
                assert progress.read >= progress.offsets >= len(self._records)
                return
            assert time.monotonic() < deadline, f"after {after}: no controller has all records"

    def close(self) -> None:
        """Close all leases, and delete the topic."""
        for lease in self._leases.values():
            lease.close()
        delete_topic(self._cluster, PENDING_REPLICAS_TOPIC)


@pytest.fixture
def controllers(three_brokers: Cluster) -> Iterator[Controllers]:
    """No controller yet, and no topic."""
    with ExitStack() as stack:
        group = Controllers(three_brokers)
        stack.callback(group.close)
        yield group


STEPS: dict[str, Callable[[Controllers], None]] = {
    "create": Controllers.create,
    "a joins": lambda group: group.join("a"),
    "b joins": lambda group: group.join("b"),
}
ENDS: dict[str, Callable[[Controllers], None]] = {
    "a leaves": lambda group: group.leave("a"),
    "b leaves": lambda group: group.leave("b"),
    "a dies": lambda group: group.die("a"),
    "b dies": lambda group: group.die("b"),
}


@pytest.mark.parametrize("order", list(permutations(STEPS)), ids=" - ".join)
def test_the_first_owner_has_all_records(controllers: Controllers, order: tuple[str, ...]) -> None:
    for step in order:
        STEPS[step](controllers)
        controllers.check(step)


def test_each_next_owner_has_all_records(controllers: Controllers) -> None:
    for step in STEPS:
        STEPS[step](controllers)
    controllers.create()
    controllers.check("another record")
    for end in ("a leaves", "a joins", "b dies", "b joins", "a dies", "a joins", "b leaves"):
        {**STEPS, **ENDS}[end](controllers)
        controllers.check(end)
