"""Which replica a consumer reads of each partition: the nearest in sync that does not fail.

A follower may return records, refuse some partitions, fail, or not respond at all. The values here
record that, and choose a broker for the next fetch; they are frozen, and times are those of the
caller's clock. A follower may be read if

- it left no fetch unanswered for longer than the policy's response timeout,
- its last failure, as a broker or for this partition, is longer ago than its backoff, and
- the metadata that calls it in sync is younger than that failure.

The first refusal of a partition has no backoff: most often its leader has moved, and the follower
refuses the old leader's epoch. It need only wait for the metadata with the new one.

Of the replicas that may be read :func:`placement_core.racks.nearest_replica` chooses one. The
leader may always be read.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, field, replace

from placement_core import TopicPartition, nearest_replica, tie_break
from placement_core.errors import InvalidOptionError


@dataclass(frozen=True, slots=True)
class NearestPolicy:
    """When to stop reading a follower, and when to try it again. All values are seconds.

    backoff, max_backoff
        How long a follower is not read after a failure: ``backoff`` after the first one, doubled
        for each further failure in a row, ``max_backoff`` at most. For one that refuses a single
        partition, this begins with the second time in a row.
    response_timeout
        How long a follower may leave a fetch unanswered, beyond ``fetch_max_wait_ms``, before the
        leader is read instead: a broker that hangs closes no connection.
    metadata_interval
        Between two metadata requests, whose response has the replicas in sync. Limits for how long
        a follower that is out of sync is read, and after what time one that is back in sync is read
        again. Brokers remove a replica from those in sync after 30 s by default.

    Raises InvalidOptionError for a value out of range.
    """

    backoff: float = 1.0
    max_backoff: float = 60.0
    response_timeout: float = 3.0
    metadata_interval: float = 30.0

    def __post_init__(self) -> None:
        self._check("backoff", minimum=0.1)
        self._check("max_backoff", minimum=self.backoff)
        self._check("response_timeout", minimum=0.1)
        self._check("metadata_interval", minimum=0.1)

    def _check(self, name: str, minimum: float) -> None:
        seconds = getattr(self, name)
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not (is_number and minimum <= seconds < math.inf):
            raise InvalidOptionError(f"{name} is {seconds!r}: give seconds, {minimum:g} or more")

    def backoff_after(self, failures: int) -> float:
        """Return the seconds for which a follower is not read after so many failures in a row."""
        # The exponent is limited because 2.0 ** 1024 raises OverflowError.
        return min(self.backoff * 2.0 ** min(failures - 1, 64), self.max_backoff)


DEFAULT_POLICY = NearestPolicy()
"""Stops reading a follower within seconds, and requests metadata twice a minute."""

Replica = tuple[int, TopicPartition | None]
"""A broker's replica of a partition, or (with None) the broker itself."""


@dataclass(frozen=True, slots=True)
class PendingFetch:
    """A fetch that a follower has not answered: its partitions, and when it times out."""

    partitions: frozenset[TopicPartition]
    timeout_at: float


@dataclass(frozen=True, slots=True)
class Failures:
    """``count`` failures in a row, the last one at the time ``at``."""

    count: int
    at: float


@dataclass(frozen=True, slots=True)
class BrokerRacks:
    """The racks of the live brokers, by metadata received at the time ``at``."""

    at: float
    racks: Mapping[int, object]


@dataclass(frozen=True, slots=True)
class FollowerState:
    """The pending fetches and the failures of the followers of one consumer."""

    policy: NearestPolicy
    pending: Mapping[int, PendingFetch] = field(default_factory=dict)
    failures: Mapping[Replica, Failures] = field(default_factory=dict)

    def fetch_sent(
        self, broker: int, partitions: Collection[TopicPartition], max_wait: float, now: float
    ) -> FollowerState:
        """Return the state after a fetch of ``partitions`` from the follower ``broker``.

        ``max_wait`` is the fetch's own maximum wait, in seconds.
        """
        timeout_at = now + max_wait + self.policy.response_timeout
        fetch = PendingFetch(frozenset(partitions), timeout_at)
        return replace(self, pending={**self.pending, broker: fetch})

    def fetch_answered(
        self, broker: int, refused: Container[TopicPartition], now: float
    ) -> FollowerState:
        """Return the state after a response, which has an error for the partitions ``refused``.

        A response after the timeout counts as a failure of the broker.
        """
        fetch = self.pending.get(broker)
        if fetch is None:
            return self
        failed: set[Replica] = {(broker, tp) for tp in fetch.partitions if tp in refused}
        succeeded: set[Replica] = {(broker, tp) for tp in fetch.partitions if tp not in refused}
        (failed if now > fetch.timeout_at else succeeded).add((broker, None))
        return self._finish_fetch(broker, failed, succeeded, now)

    def fetch_failed(self, broker: int, now: float) -> FollowerState:
        """Return the state after a fetch that got no response: the connection failed."""
        if broker not in self.pending:
            return self
        return self._finish_fetch(broker, {(broker, None)}, set(), now)

    def _finish_fetch(
        self, broker: int, failed: Collection[Replica], succeeded: Container[Replica], now: float
    ) -> FollowerState:
        pending = {each: fetch for each, fetch in self.pending.items() if each != broker}
        if not failed and not self.failures:
            return replace(self, pending=pending)
        # Failures whose backoff ended long ago are dropped, to limit the memory they take.
        oldest = now - 2 * self.policy.max_backoff
        failures = {
            replica: previous
            for replica, previous in self.failures.items()
            if replica not in succeeded and previous.at >= oldest
        }
        for replica in failed:
            previous = failures.get(replica)
            failures[replica] = Failures(previous.count + 1 if previous else 1, now)
        return replace(self, pending=pending, failures=failures)

    def choose(
        self,
        client_rack: object,
        partition: TopicPartition,
        leader: int,
        in_sync: Collection[int],
        brokers: BrokerRacks,
        now: float,
    ) -> int:
        """Return the broker to fetch ``partition`` from at ``now``: the leader, or a follower."""
        racks = {
            broker: brokers.racks[broker]
            for broker in in_sync
            if broker in brokers.racks and self._may_be_read(broker, partition, brokers.at, now)
        }
        racks[leader] = brokers.racks.get(leader)
        return nearest_replica(client_rack, racks, leader, tie_break(*partition))

    def _may_be_read(
        self, broker: int, partition: TopicPartition, metadata_at: float, now: float
    ) -> bool:
        fetch = self.pending.get(broker)
        if fetch is not None and now > fetch.timeout_at:
            return False
        failed, refused = self.failures.get((broker, None)), self.failures.get((broker, partition))
        return (
            failed is None
            or (metadata_at > failed.at and now >= failed.at + self._backoff(failed.count))
        ) and (
            refused is None
            or (metadata_at > refused.at and now >= refused.at + self._backoff(refused.count - 1))
        )

    def _backoff(self, failures: int) -> float:
        return self.policy.backoff_after(failures) if failures else 0.0

    def needs_metadata(self, metadata_at: float, now: float) -> bool:
        """Return whether to request metadata, the last having been received at ``metadata_at``.

        True if it is older than the policy's interval, than a failure, or than a fetch's timeout.
        """
        return (
            now - metadata_at >= self.policy.metadata_interval
            or any(last.at >= metadata_at for last in self.failures.values())
            or any(metadata_at <= fetch.timeout_at < now for fetch in self.pending.values())
        )
