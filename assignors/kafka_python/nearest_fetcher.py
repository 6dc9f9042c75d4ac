"""A KafkaConsumer's fetches, sent to the nearest replica in sync.

kafka-python's fetcher asks one of its methods where to fetch a partition from, makes one request
per broker of the answers, and has two more for what comes back. They are put around here, and
only translate between kafka-python and :mod:`assignors.kafka_python.nearest_replica`, which
decides. All of them run on the consumer's own I/O thread.

What a follower says of a partition in place of records is not believed: it may lag behind, or
know less than the leader of an election. The fetcher is told OFFSET_NOT_AVAILABLE instead, which
to it means "ask again", and the leader is asked. Most of all this keeps the OFFSET_OUT_OF_RANGE of
a follower that lags from resetting the consumer's position.
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

from assignors.group_leader import log
from assignors.kafka_python.assignors import LeaderRackAwareAssignor
from assignors.kafka_python.nearest_replica import (
    DEFAULT_NEAREST,
    Followers,
    Metadata,
    NearestPolicy,
)
from assignors.rack_discovery import RackSource, chosen_rack
from placement_core import InvalidOptionError, TopicPartition, parse_rack

_NO_FAULT_OF_THE_BROKER = frozenset(
    error.errno for error in (NoError, FetchSessionIdNotFoundError, InvalidFetchSessionEpochError)
)


class NearestReplicas:
    """Where one consumer reads; see :func:`read_from_nearest`, which makes it."""

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
        self._followers = Followers(policy)
        self._metadata = Metadata(-math.inf, {})
        self._now = -math.inf
        self._read_from: dict[TopicPartition, int] = {}
        self._requests = fetcher._create_fetch_requests
        self._replica = fetcher._select_read_replica
        self._respond = fetcher._handle_fetch_response
        self._fail = fetcher._handle_fetch_error
        fetcher._create_fetch_requests = self._create_fetch_requests
        fetcher._select_read_replica = self._select_read_replica
        fetcher._handle_fetch_response = self._handle_fetch_response
        fetcher._handle_fetch_error = self._handle_fetch_error
        # Brokers with a replica selector of their own would send the consumer back to the
        # follower that has just failed it.
        fetcher.config["client_rack"] = ""

    @property
    def read_from(self) -> Mapping[TopicPartition, int]:
        """The broker that each partition was asked of last, of those assigned."""
        return MappingProxyType(self._read_from)

    # ---- what the fetcher calls

    def _create_fetch_requests(self) -> Any:
        cluster = self._manager.cluster
        self._now = self._clock()
        self._metadata = Metadata(
            cluster._last_successful_refresh_ms / 1000,
            {broker.node_id: broker.rack for broker in cluster.brokers()},
        )
        if self._followers.wants_metadata(self._metadata.at, self._now):
            cluster.request_update()
        requests = self._requests()
        longest = self._fetcher.config["fetch_max_wait_ms"] / 1000
        asked = {}
        for broker, (_, offsets) in requests.items():
            places = [TopicPartition(*place) for place in offsets]
            asked.update(dict.fromkeys(places, broker))
            followed = [p for p in places if cluster.leader_for_partition(p) != broker]
            if followed:
                self._followers = self._followers.asked(broker, followed, longest, self._now)
        self._remember(asked)
        return requests

    def _remember(self, asked: Mapping[TopicPartition, int]) -> None:
        """Say what is read from elsewhere than before, and forget what is no longer assigned."""
        if not asked:
            return
        moves = Counter((self._read_from.get(place), broker) for place, broker in asked.items())
        for (before, broker), count in moves.items():
            if before is not None and before != broker:
                log.info("%d partitions: read from broker %s now, not %s", count, broker, before)
        assigned = self._fetcher._subscriptions.assignment
        kept = {place: broker for place, broker in self._read_from.items() if place in assigned}
        # Replaced as a whole: other threads may be reading the last one.
        self._read_from = {**kept, **asked}

    def _select_read_replica(self, place: Any) -> Any:
        known = self._manager.cluster._partitions.get(place.topic, {}).get(place.partition)
        if known is None or known.leader_id is None or known.leader_id < 0:
            return self._replica(place)
        choice = self._followers.choose(
            self._rack,
            TopicPartition(*place),
            known.leader_id,
            [broker for broker in known.isr_nodes or () if self._can_be_reached(broker)],
            self._metadata,
            self._now,
        )
        return self._replica(place) if choice == known.leader_id else choice

    def _can_be_reached(self, broker: int) -> bool:
        """Whether the fetcher would send it something now."""
        return (
            self._manager.connection_delay(broker) <= 0
            and self._manager.auth_failure(broker) is None
        )

    def _handle_fetch_response(self, broker: int, offsets: Any, sent: float, response: Any) -> None:
        question = self._followers.questions.get(broker)
        if question is not None:
            if response.error_code in _NO_FAULT_OF_THE_BROKER:
                refused = set()
                for topic in response.responses:
                    for said in topic.partitions:
                        place = TopicPartition(topic.topic, said.partition_index)
                        if place in question.partitions and _no_records(said):
                            log.debug("%s-%d: broker %s: error %d", *place, broker, said.error_code)
                            said.error_code = OffsetNotAvailableError.errno
                            refused.add(place)
                self._followers = self._followers.answered(broker, refused, self._clock())
                self._prefer_none(refused)
            else:
                self._failed(broker)
        self._respond(broker, offsets, sent, response)

    def _handle_fetch_error(self, broker: int, error: Any) -> None:
        self._failed(broker)
        self._fail(broker, error)

    def _failed(self, broker: int) -> None:
        question = self._followers.questions.get(broker)
        self._followers = self._followers.failed(broker, self._clock())
        if question is not None:
            self._prefer_none(question.partitions)

    def _prefer_none(self, places: Iterable[TopicPartition]) -> None:
        """Where it was a broker's own choice that went wrong: the fetcher must not keep to it."""
        for place in places:
            state = self._fetcher._subscriptions.assignment.get(place)
            if state is not None:
                state.clear_preferred_read_replica()


def _no_records(said: Any) -> bool:
    """Whether a partition's part of an answer is an error, or denies what was read before."""
    diverging = said.diverging_epoch
    return bool(
        said.error_code != NoError.errno or (diverging is not None and diverging.end_offset >= 0)
    )


def read_from_nearest(
    consumer: Any,
    rack: str | RackSource | None = None,
    policy: NearestPolicy = DEFAULT_NEAREST,
) -> NearestReplicas:
    """From now on, have a KafkaConsumer fetch from the nearest replica in sync.

    ``rack`` is where the consumer runs: ``/dc1/r1``, or a name without levels (None: see
    :mod:`assignors.rack_discovery`; if there is none to be found, leaders are read). Brokers need a
    ``broker.rack``, and Kafka 2.4, but no ``replica.selector.class``. See
    :func:`placement_core.racks.nearest_replica` for what is nearest. Whatever goes wrong
    with a follower, its leader is read instead; ``policy`` says until when.

    This costs consistency. A record is seen at a follower a little later than at its leader (when
    the follower has heard that it is replicated); who writes and then reads may not read
    what was written; and a follower that lags is read for as long as it counts as in sync, by
    default 30 s, and as metadata takes to say otherwise. Records keep their order, and none is
    lost. Offsets (the beginning, the end, those of a time) are still asked of leaders, so that
    a position may be ahead of what the follower has; nothing comes until it has caught up.

    It is not to be combined with our assignors, which put leaders near: that is warned of.
    ``client_rack`` is no longer sent. Raises TypeError for what is not a KafkaConsumer, and
    InvalidOptionError for one that reads from the nearest already.
    """
    if not isinstance(consumer, KafkaConsumer):
        raise TypeError(f"{consumer!r} is no kafka.KafkaConsumer")
    fetcher = consumer._fetcher
    made = getattr(fetcher._create_fetch_requests, "__self__", None)
    if isinstance(made, NearestReplicas):
        raise InvalidOptionError("this consumer reads from the nearest already: call it once")
    where = chosen_rack(rack, os.environ)
    if parse_rack(where) is None:
        log.warning("rack %r is not known: this consumer reads from leaders", where)
    if any(map(_is_ours, consumer.config["partition_assignment_strategy"])):
        log.warning(
            "this consumer reads from the nearest replica, so assigning by the racks of leaders"
            " is in vain: give it another partition_assignment_strategy, or leave it to leaders"
        )
    return NearestReplicas(fetcher, where, policy)


def _is_ours(strategy: object) -> bool:
    return isinstance(strategy, LeaderRackAwareAssignor) or (
        isinstance(strategy, type) and issubclass(strategy, LeaderRackAwareAssignor)
    )
