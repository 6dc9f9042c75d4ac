"""Makes a KafkaConsumer fetch from the nearest replica in sync that does not fail.

`FollowerFetches` records which followers have returned records, refused partitions, failed, or not
responded, and chooses a broker for the next fetch. A follower may be read if

- it left no fetch unanswered for longer than the policy's response timeout,
- its last failure, as a broker or for this partition, is longer ago than its backoff, and
- the metadata that calls it in sync is younger than that failure.

The first refusal of a partition has no backoff: most often its leader has moved, and the follower
refuses the old leader's epoch. It need only wait for the metadata with the new one. Of the replicas
that may be read :func:`placement_core.racks.nearest_replica` chooses one. The leader may always be
read.

kafka-python's fetcher has one method that chooses the broker to fetch a partition from, one that
builds a request per broker, and two that handle responses and failures. `NearestReplicas` wraps
them; all of them run on the consumer's I/O thread.

An error of a follower is never passed on: the follower may lag behind its leader, or be unaware of
an election. The error is replaced by OFFSET_NOT_AVAILABLE, after which the fetcher retries, and the
next fetch goes to the leader. Above all, this keeps the OFFSET_OUT_OF_RANGE of a follower that lags
from resetting the consumer's position.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from kafka import KafkaConsumer
from kafka.errors import (
    FetchSessionIdNotFoundError,
    InvalidFetchSessionEpochError,
    NoError,
    OffsetNotAvailableError,
)

from assignors.client_assignor import is_client_assignor
from assignors.group_leader import log, sanitize
from assignors.kafka_python.internals import check_kafka_python
from assignors.rack_discovery import RackSource, resolve_rack
from placement_core import (
    InvalidOptionError,
    TopicPartition,
    nearest_replica,
    parse_rack,
    tie_break,
)

_NO_BROKER_FAILURE = frozenset(
    error.errno for error in (NoError, FetchSessionIdNotFoundError, InvalidFetchSessionEpochError)
)


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
        if failures < 1:
            return 0.0
        # The exponent is limited because 2.0 ** 1024 raises OverflowError.
        return min(self.backoff * 2.0 ** min(failures - 1, 64), self.max_backoff)


DEFAULT_POLICY = NearestPolicy()
"""Stops reading a follower within seconds, and requests metadata twice a minute."""


def read_from_nearest(
    consumer: Any,
    rack: str | RackSource | None = None,
    policy: NearestPolicy = DEFAULT_POLICY,
) -> NearestReplicas:
    """Make a KafkaConsumer fetch from the nearest replica in sync from now on.

    ``rack`` is where the consumer runs: ``/dc1/r1``, or a name without levels (None: see
    :mod:`assignors.rack_discovery`; if none is found, leaders are read). Brokers need a
    ``broker.rack`` and Kafka 2.4, but no ``replica.selector.class``. What is nearest is defined by
    :func:`placement_core.racks.nearest_replica`. Whatever fails at a follower, its leader is read
    instead; ``policy`` sets the timeouts.

    The price is consistency. A record becomes visible at a follower later than at its leader; an
    application that writes and then reads may not find what it wrote; and a follower that lags is
    read until metadata no longer has it in sync, by default after 30 s. Records keep their order,
    and none is lost. Offsets (the beginning, the end, those of a timestamp) still come from
    leaders, so a position may be ahead of what the follower has; no records are returned until it
    has caught up.

    Do not combine it with rackward's assignors, which make leaders near: that is logged as a
    warning. ``client_rack`` is no longer sent. Raises TypeError if ``consumer`` is no
    KafkaConsumer, and InvalidOptionError if it reads from the nearest replica already.
    """
    if not isinstance(consumer, KafkaConsumer):
        raise TypeError(f"{consumer!r} is not a kafka.KafkaConsumer")
    check_kafka_python()
    fetcher = consumer._fetcher
    if isinstance(getattr(fetcher._create_fetch_requests, "__self__", None), NearestReplicas):
        raise InvalidOptionError(
            "this consumer reads from the nearest replica already: call read_from_nearest once"
        )
    resolved = resolve_rack(rack, os.environ)
    if parse_rack(resolved) is None:
        log.warning("rack=%r is not a known rack: this consumer reads from leaders", resolved)
    if any(map(is_client_assignor, consumer.config["partition_assignment_strategy"])):
        log.warning(
            "this consumer reads from the nearest replica, so leader-rack-aware assignment has no"
            " effect: set another partition_assignment_strategy, or do not call read_from_nearest"
        )
    return NearestReplicas(fetcher, resolved, policy)


Replica = tuple[int, TopicPartition | None]
"""A broker's replica of a partition, or (with None) the broker itself."""


class FollowerFetches:
    """The pending fetches and the failures of the followers of one consumer.

    All times are those of the caller's clock, in seconds.
    """

    def __init__(self, policy: NearestPolicy) -> None:
        self.pending: dict[int, tuple[frozenset[TopicPartition], float]] = {}
        """By follower: the partitions of the fetch that it has not answered, and its timeout."""
        self.failures: dict[Replica, tuple[int, float]] = {}
        """The number of failures in a row, and the time of the last one."""
        self._policy = policy

    def sent(
        self, broker: int, partitions: Collection[TopicPartition], max_wait: float, now: float
    ) -> None:
        """Note a fetch of ``partitions`` from the follower ``broker``.

        ``max_wait`` is the fetch's own maximum wait, in seconds.
        """
        timeout_at = now + max_wait + self._policy.response_timeout
        self.pending[broker] = frozenset(partitions), timeout_at

    def answered(self, broker: int, refused: Container[TopicPartition], now: float) -> None:
        """Note a response, which has an error for the partitions ``refused``.

        A response after the timeout counts as a failure of the broker.
        """
        if broker not in self.pending:
            return
        partitions, timeout_at = self.pending.pop(broker)
        failed: set[Replica] = {(broker, tp) for tp in partitions if tp in refused}
        succeeded: set[Replica] = {(broker, tp) for tp in partitions if tp not in refused}
        (failed if now > timeout_at else succeeded).add((broker, None))
        self._update_failures(failed, succeeded, now)

    def failed(self, broker: int, now: float) -> None:
        """Note a fetch that got no response: the connection failed."""
        if self.pending.pop(broker, None) is not None:
            self._update_failures({(broker, None)}, (), now)

    def _update_failures(
        self, failed: Iterable[Replica], succeeded: Container[Replica], now: float
    ) -> None:
        # Failures whose backoff ended long ago are dropped, to limit the memory they take.
        oldest = now - 2 * self._policy.max_backoff
        self.failures = {
            replica: (count, at)
            for replica, (count, at) in self.failures.items()
            if replica not in succeeded and at >= oldest
        }
        for replica in failed:
            count, _ = self.failures.get(replica, (0, now))
            self.failures[replica] = count + 1, now

    def choose(
        self,
        client_rack: object,
        partition: TopicPartition,
        leader: int,
        in_sync: Collection[int],
        racks: Mapping[int, object],
        metadata_at: float,
        now: float,
    ) -> int:
        """Return the broker to fetch ``partition`` from at ``now``: the leader, or a follower.

        ``racks`` has the live brokers, by metadata received at ``metadata_at``.
        """
        candidates = {
            broker: racks[broker]
            for broker in in_sync
            if broker in racks and self._may_be_read(broker, partition, metadata_at, now)
        }
        candidates[leader] = racks.get(leader)
        return nearest_replica(client_rack, candidates, leader, tie_break(*partition))

    def _may_be_read(
        self, broker: int, partition: TopicPartition, metadata_at: float, now: float
    ) -> bool:
        if broker in self.pending and now > self.pending[broker][1]:
            return False
        for replica, without_backoff in (((broker, None), 0), ((broker, partition), 1)):
            count, at = self.failures.get(replica, (0, -math.inf))
            backoff = self._policy.backoff_after(count - without_backoff)
            if metadata_at <= at or now < at + backoff:
                return False
        return True

    def needs_metadata(self, metadata_at: float, now: float) -> bool:
        """Return whether to request metadata, the last having been received at ``metadata_at``.

        True if it is older than the policy's interval, than a failure, or than a fetch's timeout.
        """
        return (
            now - metadata_at >= self._policy.metadata_interval
            or any(at >= metadata_at for _, at in self.failures.values())
            or any(metadata_at <= timeout_at < now for _, timeout_at in self.pending.values())
        )


class NearestReplicas:
    """The replicas that one consumer reads; constructed by :func:`read_from_nearest`."""

    def __init__(self, fetcher: Any, rack: str | None, policy: NearestPolicy) -> None:
        self._fetcher = fetcher
        self._manager = fetcher._manager
        self._rack = rack
        self._followers = FollowerFetches(policy)
        self._racks: Mapping[int, object] = {}
        self._metadata_at = -math.inf
        self._now = -math.inf
        self._read_from: dict[TopicPartition, int] = {}
        self._upstream_create_fetch_requests = fetcher._create_fetch_requests
        self._upstream_select_read_replica = fetcher._select_read_replica
        self._upstream_handle_fetch_response = fetcher._handle_fetch_response
        self._upstream_handle_fetch_error = fetcher._handle_fetch_error
        fetcher._create_fetch_requests = self._create_fetch_requests
        fetcher._select_read_replica = self._select_read_replica
        fetcher._handle_fetch_response = self._handle_fetch_response
        fetcher._handle_fetch_error = self._handle_fetch_error
        # A broker with a replica selector would redirect the consumer to the follower that failed.
        fetcher.config["client_rack"] = ""

    @property
    def read_from(self) -> Mapping[TopicPartition, int]:
        """The broker that each assigned partition was last fetched from."""
        return MappingProxyType(self._read_from)

    # ---- called by the fetcher

    def _create_fetch_requests(self) -> Any:
        cluster = self._manager.cluster
        self._now = time.monotonic()
        self._metadata_at = cluster._last_successful_refresh_ms / 1000
        self._racks = {broker.node_id: broker.rack for broker in cluster.brokers()}
        if self._followers.needs_metadata(self._metadata_at, self._now):
            cluster.request_update()
        requests = self._upstream_create_fetch_requests()
        max_wait = self._fetcher.config["fetch_max_wait_ms"] / 1000
        sent = {}
        for broker, (_, offsets) in requests.items():
            partitions = [TopicPartition(*tp) for tp in offsets]
            sent.update(dict.fromkeys(partitions, broker))
            followed = [tp for tp in partitions if cluster.leader_for_partition(tp) != broker]
            if followed:
                self._followers.sent(broker, followed, max_wait, self._now)
        self._record(sent)
        return requests

    def _record(self, sent: Mapping[TopicPartition, int]) -> None:
        """Log changes of brokers, and drop partitions that are no longer assigned."""
        if not sent:
            return
        changes = Counter((self._read_from.get(tp), broker) for tp, broker in sent.items())
        for (previous, broker), count in changes.items():
            if previous is not None and previous != broker:
                log.info("%d partitions: reading from broker %s, not %s", count, broker, previous)
        assigned = self._fetcher._subscriptions.assignment
        read_from = {tp: broker for tp, broker in self._read_from.items() if tp in assigned}
        # Replaced as a whole: other threads may be reading the old one.
        self._read_from = {**read_from, **sent}

    def _select_read_replica(self, tp: Any) -> Any:
        known = self._manager.cluster._partitions.get(tp.topic, {}).get(tp.partition)
        if known is None or known.leader_id is None or known.leader_id < 0:
            return self._upstream_select_read_replica(tp)
        broker = self._followers.choose(
            self._rack,
            TopicPartition(*tp),
            known.leader_id,
            [node for node in known.isr_nodes or () if self._is_available(node)],
            self._racks,
            self._metadata_at,
            self._now,
        )
        return self._upstream_select_read_replica(tp) if broker == known.leader_id else broker

    def _is_available(self, broker: int) -> bool:
        """Return whether the fetcher would send a request to the broker now."""
        return (
            self._manager.connection_delay(broker) <= 0
            and self._manager.auth_failure(broker) is None
        )

    def _handle_fetch_response(self, broker: int, offsets: Any, sent: float, response: Any) -> None:
        if response.error_code not in _NO_BROKER_FAILURE:
            self._fetch_failed(broker)
        elif broker in self._followers.pending:
            fetched, _ = self._followers.pending[broker]
            refused = set()
            for topic in response.responses:
                for part in topic.partitions:
                    tp = TopicPartition(topic.topic, part.partition_index)
                    if tp in fetched and _is_refusal(part):
                        log.debug(
                            "%s-%d: broker %s: error %d",
                            sanitize(tp.topic),
                            tp.partition,
                            broker,
                            part.error_code,
                        )
                        part.error_code = OffsetNotAvailableError.errno
                        refused.add(tp)
            self._followers.answered(broker, refused, time.monotonic())
            self._clear_preferred_replica(refused)
        self._upstream_handle_fetch_response(broker, offsets, sent, response)

    def _handle_fetch_error(self, broker: int, error: Any) -> None:
        self._fetch_failed(broker)
        self._upstream_handle_fetch_error(broker, error)

    def _fetch_failed(self, broker: int) -> None:
        fetched, _ = self._followers.pending.get(broker, (frozenset[TopicPartition](), 0.0))
        self._followers.failed(broker, time.monotonic())
        self._clear_preferred_replica(fetched)

    def _clear_preferred_replica(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop the brokers' own choice of a follower, in case it was that one that failed."""
        for tp in partitions:
            state = self._fetcher._subscriptions.assignment.get(tp)
            if state is not None:
                state.clear_preferred_read_replica()


def _is_refusal(part: Any) -> bool:
    """Return whether one partition of a response has an error, or contradicts what was read."""
    diverging = part.diverging_epoch
    return bool(
        part.error_code != NoError.errno or (diverging is not None and diverging.end_offset >= 0)
    )
