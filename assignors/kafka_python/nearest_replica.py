"""How long to wait for a follower, and how long to leave one alone."""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, field, replace

from placement_core import TopicPartition, nearest_replica, turn_of
from placement_core.errors import InvalidOptionError


@dataclass(frozen=True, slots=True)
class NearestPolicy:
    """When to give up a follower, and when to try it again. All in seconds.

    back_off, most_back_off
        For which a follower that failed is left alone: the first for its first failure, twice as
        long for each that follows it without an answer between, up to the second. It must be in
        sync as well, in metadata that is younger than the failure.
    patience
        Beyond ``fetch_max_wait_ms``, for which a follower may leave a fetch unanswered until the
        leader is read instead: a broker that hangs closes no connection.
    refresh
        Between two requests for metadata, which says what replicas are in sync. This is what
        bounds for how long a follower is read that has fallen out of sync, and after what time
        one that is back is read again. Brokers take a replica out of sync after 30 s by default.

    Raises InvalidOptionError for values out of range.
    """

    back_off: float = 1.0
    most_back_off: float = 60.0
    patience: float = 3.0
    refresh: float = 30.0

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        self._check("back_off", least=0.1)
        self._check("most_back_off", least=self.back_off)
        self._check("patience", least=0.1)
        self._check("refresh", least=0.1)

    def _check(self, name: str, least: float) -> None:
        seconds = getattr(self, name)
        number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not (number and least <= seconds < math.inf):
            raise InvalidOptionError(f"{name} is {seconds!r}: give seconds, {least:g} or more")

    def left_alone(self, failures: int) -> float:
        """Seconds for which a follower is left alone that has failed so often in a row."""
        # Capped before the power: 2.0 ** 1024 raises.
        return min(self.back_off * 2.0 ** min(failures - 1, 64), self.most_back_off)


DEFAULT_NEAREST = NearestPolicy()
"""Gives a follower up within seconds, and asks for metadata twice a minute."""


# ---- What a consumer holds against followers, and which replica it reads now. Pure.
#
# A consumer asks followers for records, and each of them answers, refuses some partitions, fails
# or stays silent. The state below remembers that, as frozen values; times are those of the
# caller's clock. A follower may be read where nothing is held against it: it left no fetch
# unanswered for longer than the policy's patience, and its last failure, as a broker or for this
# partition, is longer ago than the back-off and older than the metadata that calls it in sync.
# Of those that may be read :func:`placement_core.racks.nearest_replica` chooses; the leader
# always may.

Replica = tuple[int, TopicPartition | None]
"""A broker's replica of a partition; of None, the broker itself."""


@dataclass(frozen=True, slots=True)
class Question:
    """A fetch that a follower has not answered: of what, and until when it may take."""

    partitions: frozenset[TopicPartition]
    patience_ends: float


@dataclass(frozen=True, slots=True)
class Failures:
    """``count`` failures in a row, the last at the instant ``at``."""

    count: int
    at: float


@dataclass(frozen=True, slots=True)
class Metadata:
    """What brokers said at the instant ``at``: ``racks`` has those that are there."""

    at: float
    racks: Mapping[int, object]


@dataclass(frozen=True, slots=True)
class Followers:
    """What is known of the followers of one consumer; see the module."""

    policy: NearestPolicy
    questions: Mapping[int, Question] = field(default_factory=dict)
    failures: Mapping[Replica, Failures] = field(default_factory=dict)

    def asked(
        self, broker: int, partitions: Collection[TopicPartition], longest: float, now: float
    ) -> Followers:
        """After a fetch of ``partitions`` that follower ``broker`` may hold ``longest`` seconds."""
        question = Question(frozenset(partitions), now + longest + self.policy.patience)
        return replace(self, questions={**self.questions, broker: question})

    def answered(self, broker: int, refused: Container[TopicPartition], now: float) -> Followers:
        """After its answer, which had an error in place of records for those ``refused``.

        An answer that took longer than patience counts as a failure of the broker.
        """
        question = self.questions.get(broker)
        if question is None:
            return self
        bad = {(broker, place) for place in question.partitions if place in refused}
        good = {(broker, place) for place in question.partitions if place not in refused}
        itself: set[Replica] = {(broker, None)}
        if now > question.patience_ends:
            return self._after(broker, bad | itself, good, now)
        return self._after(broker, bad, good | itself, now)

    def failed(self, broker: int, now: float) -> Followers:
        """After its fetch came to nothing: no connection, or none any more."""
        if broker not in self.questions:
            return self
        return self._after(broker, {(broker, None)}, set(), now)

    def _after(
        self, broker: int, bad: Collection[Replica], good: Container[Replica], now: float
    ) -> Followers:
        questions = {b: question for b, question in self.questions.items() if b != broker}
        if not bad and not self.failures:
            return replace(self, questions=questions)
        # What was tried again long ago, or never will be, is not worth the memory.
        forgotten = now - 2 * self.policy.most_back_off
        failures = {
            replica: before
            for replica, before in self.failures.items()
            if replica not in good and before.at >= forgotten
        }
        for replica in bad:
            before = failures.get(replica)
            failures[replica] = Failures(before.count + 1 if before else 1, now)
        return replace(self, questions=questions, failures=failures)

    def choose(
        self,
        client_rack: object,
        partition: TopicPartition,
        leader: int,
        in_sync: Collection[int],
        metadata: Metadata,
        now: float,
    ) -> int:
        """The broker to ask for records of ``partition`` at ``now``: the leader, or a follower."""
        racks = {
            broker: metadata.racks[broker]
            for broker in in_sync
            if broker in metadata.racks and self._may_be_read(broker, partition, metadata.at, now)
        }
        racks[leader] = metadata.racks.get(leader)
        return nearest_replica(client_rack, racks, leader, turn_of(*partition))

    def _may_be_read(
        self, broker: int, partition: TopicPartition, as_of: float, now: float
    ) -> bool:
        question = self.questions.get(broker)
        if question is not None and now > question.patience_ends:
            return False
        held = (self.failures.get((broker, None)), self.failures.get((broker, partition)))
        return all(
            before is None
            or (as_of > before.at and now >= before.at + self.policy.left_alone(before.count))
            for before in held
        )

    def wants_metadata(self, as_of: float, now: float) -> bool:
        """Whether to ask for metadata: what there is, of ``as_of``, is old or precedes a failure.

        Or a follower is silent, and has been longer than the metadata is old.
        """
        return (
            now - as_of >= self.policy.refresh
            or any(before.at >= as_of for before in self.failures.values())
            or any(as_of <= each.patience_ends < now for each in self.questions.values())
        )
