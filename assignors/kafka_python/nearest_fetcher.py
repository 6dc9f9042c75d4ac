"""Makes a KafkaConsumer fetch from the nearest replica in sync.

kafka-python's fetcher has one method that chooses the broker to fetch a partition from, one that
builds a request per broker, and two that handle responses and failures. They are wrapped here, and
only translate between kafka-python and :mod:`assignors.kafka_python.nearest_replica`, which
decides. All of them run on the consumer's I/O thread.

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
from collections.abc import Callable, Iterable, Mapping
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
from assignors.kafka_python.nearest_replica import (
    DEFAULT_POLICY,
    BrokerRacks,
    FollowerState,
    NearestPolicy,
)
from assignors.rack_discovery import RackSource, resolve_rack
from placement_core import InvalidOptionError, TopicPartition, parse_rack

_NO_BROKER_FAILURE = frozenset(
    error.errno for error in (NoError, FetchSessionIdNotFoundError, InvalidFetchSessionEpochError)
)


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

    Do not combine it with our assignors, which make leaders near; that is logged as a warning.
    ``client_rack`` is no longer sent. Raises TypeError if ``consumer`` is no KafkaConsumer, and
    InvalidOptionError if it reads from the nearest replica already.
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


class NearestReplicas:
    """The replicas that one consumer reads; constructed by :func:`read_from_nearest`."""

    def __init__(
        self,
        fetcher: Any,
        rack: str | None,
        policy: NearestPolicy,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetcher = fetcher
        self._manager = fetcher._manager
        self._rack = rack
        self._clock = clock
        self._followers = FollowerState(policy)
        self._brokers = BrokerRacks(-math.inf, {})
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
        self._now = self._clock()
        self._brokers = BrokerRacks(
            cluster._last_successful_refresh_ms / 1000,
            {broker.node_id: broker.rack for broker in cluster.brokers()},
        )
        if self._followers.needs_metadata(self._brokers.at, self._now):
            cluster.request_update()
        requests = self._upstream_create_fetch_requests()
        max_wait = self._fetcher.config["fetch_max_wait_ms"] / 1000
        sent = {}
        for broker, (_, offsets) in requests.items():
            partitions = [TopicPartition(*tp) for tp in offsets]
            sent.update(dict.fromkeys(partitions, broker))
            followed = [tp for tp in partitions if cluster.leader_for_partition(tp) != broker]
            if followed:
                self._followers = self._followers.fetch_sent(broker, followed, max_wait, self._now)
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
            [each for each in known.isr_nodes or () if self._is_available(each)],
            self._brokers,
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
        fetch = self._followers.pending.get(broker)
        if fetch is not None:
            if response.error_code in _NO_BROKER_FAILURE:
                refused = set()
                for topic in response.responses:
                    for part in topic.partitions:
                        tp = TopicPartition(topic.topic, part.partition_index)
                        if tp in fetch.partitions and _is_refusal(part):
                            log.debug(
                                "%s-%d: broker %s: error %d",
                                sanitize(tp.topic),
                                tp.partition,
                                broker,
                                part.error_code,
                            )
                            part.error_code = OffsetNotAvailableError.errno
                            refused.add(tp)
                self._followers = self._followers.fetch_answered(broker, refused, self._clock())
                self._clear_preferred_replica(refused)
            else:
                self._fetch_failed(broker)
        self._upstream_handle_fetch_response(broker, offsets, sent, response)

    def _handle_fetch_error(self, broker: int, error: Any) -> None:
        self._fetch_failed(broker)
        self._upstream_handle_fetch_error(broker, error)

    def _fetch_failed(self, broker: int) -> None:
        fetch = self._followers.pending.get(broker)
        self._followers = self._followers.fetch_failed(broker, self._clock())
        if fetch is not None:
            self._clear_preferred_replica(fetch.partitions)

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
