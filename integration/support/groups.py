"""A consumer group whose members, of any client library, run in threads; and its history.

    with ConsumerGroup(cluster, topics=["orders"]) as group:
        group.start("a1", rack="a")
        group.start("b1", rack="b")
        owned = group.settle(partitions={("orders", p) for p in range(36)})

Each member polls in its own thread. The group records each assignment and revocation, the
partition, offset and time of each record, and the error that ended a member. Members are
KafkaConsumers unless the group, or a member, is given another ``client``.
"""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

from integration.support.clients import (
    Client,
    KafkaPython,
    MakeClient,
    MemberConfig,
    PartitionId,
)
from integration.support.topics import SteadyProducer, committed
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until


class GroupError(AssertionError):
    """The group did not reach the expected state; the message has the actual one."""


@dataclass(frozen=True)
class Change:
    """Partitions that were "assigned" to a member, or that it "revoked" or "lost"."""

    when: float
    member: str
    kind: str
    partitions: frozenset[PartitionId]


class Span(NamedTuple):
    """Consecutive records, from offset ``first`` to before ``end``, that a member read at once."""

    at: float
    first: int
    end: int
    member: str


class Reads:
    """The records that were read of one partition, in order.

    Records of one poll are kept as one span, so that millions of records take little memory.
    """

    def __init__(self, seen: Iterable[tuple[float, int, str]] = ()) -> None:
        """Record the time, offset and member of each record of ``seen``."""
        self.spans: list[Span] = []
        for at, offset, member in seen:
            self.record(at, offset, member)

    def record(self, at: float, offset: int, member: str, count: int = 1) -> None:
        """Append ``count`` consecutive records, the first of which has this offset."""
        last = self.spans[-1] if self.spans else None
        if last is not None and (last.at, last.end, last.member) == (at, offset, member):
            self.spans[-1] = last._replace(end=offset + count)
        else:
            self.spans.append(Span(at, offset, offset + count, member))

    @property
    def seen(self) -> list[tuple[float, int, str]]:
        """Time, offset and member of each record."""
        return [
            (each.at, offset, each.member)
            for each in list(self.spans)
            for offset in range(each.first, each.end)
        ]

    @property
    def count(self) -> int:
        """The number of records, those that were read again included."""
        return sum(each.end - each.first for each in list(self.spans))

    def offsets(self) -> set[int]:
        """Return every offset that a member read."""
        spans = list(self.spans)
        return set(itertools.chain.from_iterable(range(each.first, each.end) for each in spans))

    def longest_gap(self, since: float, until: float) -> float:
        """Return the longest time without a record between two times, in seconds."""
        times = sorted(each.at for each in list(self.spans) if since <= each.at <= until)
        edges = [since, *times, until]
        return max(b - a for a, b in itertools.pairwise(edges))


class Member(threading.Thread):
    """One consumer and its poll loop."""

    def __init__(
        self, group: ConsumerGroup, name: str, make: Callable[[], Client], poll_interval: float
    ) -> None:
        super().__init__(name=f"member-{name}", daemon=True)
        self.group = group
        self.label = name
        self.error: BaseException | None = None
        self._client: Client | None = None
        self._make = make
        self._poll_interval = poll_interval
        self._ending = threading.Event()
        self._may_poll = threading.Event()
        self._may_poll.set()
        self._subscription: dict[str, Any] | None = None
        self.start()

    def run(self) -> None:
        try:
            client = self._client = self._make()
            while not self._ending.is_set():
                subscription, self._subscription = self._subscription, None
                if subscription is not None:
                    client.subscribe(self._record, **subscription)
                self._record_reads(client.poll(0.5))
                self._ending.wait(self._poll_interval)
                self._may_poll.wait()
        except BaseException as error:  # noqa: BLE001 - raised by raise_errors
            self.error = error
        finally:
            if self._client is not None:
                self._record_reads(self._client.close() or ())

    def resubscribe(self, *, topics: Sequence[str] = (), pattern: str | None = None) -> None:
        """Change the subscription before the next poll."""
        self._subscription = {"topics": topics, "pattern": pattern}

    def pause(self) -> None:
        """Do not poll after the current poll, until `resume` or `end`."""
        self._may_poll.clear()

    def resume(self) -> None:
        """Poll again."""
        self._may_poll.set()

    def end(self) -> None:
        """Close the consumer after the current poll."""
        self._ending.set()
        self._may_poll.set()

    def stop(self, timeout: float = TEST_TIMEOUT) -> None:
        """Close the consumer (a dynamic member leaves, a static one does not); end the thread."""
        self.end()
        self.join(timeout)
        if self.is_alive():
            raise GroupError(f"member {self.label} did not stop in {timeout:g} s")

    @property
    def consumer(self) -> Any:
        """The client library's consumer; None until it is constructed."""
        return self._client and self._client.consumer

    @property
    def owned(self) -> frozenset[PartitionId]:
        """Return its current assignment."""
        return frozenset() if self._client is None else self._client.owned()

    @property
    def generation(self) -> int:
        """Return its generation; -1 outside a group and during a rebalance."""
        return -1 if self._client is None else self._client.generation()

    def _record_reads(self, records: Iterable[tuple[PartitionId, int]]) -> None:
        now = time.monotonic()
        for tp, offset in records:
            self.group.reads_of(tp).record(now, offset, self.label)

    def _record(self, kind: str, tps: Iterable[PartitionId]) -> None:
        change = Change(time.monotonic(), self.label, kind, frozenset(tps))
        self.group.history.append(change)


class ConsumerGroup:
    """Members of one group on one cluster; leaving the ``with`` block stops them all.

    Members in processes (`integration.support.process_clients`) record ``claims``, which are the
    generation, partition and member of records, and the errors of commits of single records.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        topics: Sequence[str] = (),
        client: MakeClient | None = None,
        **settings: Any,
    ) -> None:
        """Create a group whose members ``client`` constructs with ``settings``.

        They subscribe to ``topics``; they are KafkaConsumers by default.
        """
        self.id = f"group-{uuid.uuid4().hex[:8]}"
        self.members: dict[str, Member] = {}
        self.history: list[Change] = []
        self._cluster = cluster
        self._topics = list(topics)
        self._client = client or KafkaPython()
        self._settings = settings
        self.reads: dict[PartitionId, Reads] = {}
        self.claims: set[tuple[int, PartitionId, str]] = set()
        self.not_committed: list[str] = []
        self._lock = threading.Lock()

    def reads_of(self, tp: PartitionId) -> Reads:
        """Return what the group has read of a partition so far."""
        with self._lock:
            return self.reads.setdefault(tp, Reads())

    def start(
        self,
        name: str,
        rack: str | None = None,
        *,
        client: MakeClient | None = None,
        topics: Sequence[str] | None = None,
        pattern: str | None = None,
        poll_interval: float = 0.0,
        **settings: Any,
    ) -> Member:
        """Add a member; it connects to the listener for its rack, if there is one.

        It waits ``poll_interval`` seconds between two polls. ``client``, ``topics``
        and ``settings`` replace those of the group.
        """
        listener = rack if rack in self._cluster.client_racks else None
        config = MemberConfig(
            bootstrap=self._cluster.bootstrap(listener),
            group_id=self.id,
            name=name,
            rack=rack,
            settings={**({} if client else self._settings), **settings},
        )
        make = client or self._client
        member = Member(self, name, lambda: make(config), poll_interval)
        member.resubscribe(
            topics=() if pattern else self._topics if topics is None else topics, pattern=pattern
        )
        self.members[name] = member
        return member

    def stop(self, name: str) -> None:
        """Close and remove a member; its history and reads stay."""
        self.members.pop(name).stop()

    def settle(
        self,
        partitions: Collection[PartitionId],
        *,
        within: float = TEST_TIMEOUT,
        hold: float = 0.5,
        after: int = -1,
    ) -> dict[str, frozenset[PartitionId]]:
        """Wait until all members are in one generation and own each of ``partitions`` once.

        This must last for ``hold`` seconds, in a generation later than ``after``. Return the
        partitions of each member. Raise GroupError after ``within`` seconds, or at once if a
        member has failed.
        """
        expected = sorted(partitions)
        deadline = time.monotonic() + within
        since: float | None = None
        before: object = None
        while True:
            self.raise_errors()
            owned = {name: member.owned for name, member in self.members.items()}
            generations = {member.generation for member in self.members.values()}
            assigned = sorted(tp for tps in owned.values() for tp in tps)
            (generation,) = generations if len(generations) == 1 else (-1,)
            now = time.monotonic()
            state = (generation, owned)
            if generation > after and assigned == expected:
                if state != before:
                    since = now
                elif since is not None and now - since >= hold:
                    return owned
            else:
                since = None
            before = state
            if now > deadline:
                raise GroupError(
                    f"not settled in {within:g} s: generations {sorted(generations)}, "
                    f"{len(assigned)} of {len(expected)} partitions owned, "
                    f"loads { {name: len(tps) for name, tps in owned.items()} }"
                )
            time.sleep(0.02)

    @property
    def generation(self) -> int:
        """Return the highest generation of a member."""
        return max((member.generation for member in self.members.values()), default=-1)

    def raise_errors(self) -> None:
        """Raise GroupError if an error ended a member."""
        for member in self.members.values():
            if member.error is not None:
                raise GroupError(f"member {member.label} failed") from member.error

    def assigned_again(self, since: float) -> list[tuple[str, PartitionId]]:
        """Return the partitions that a member revoked and was assigned again after that time."""
        revoked: set[tuple[str, PartitionId]] = set()
        again = []
        for change in list(self.history):
            if change.when < since:
                continue
            changed = {(change.member, tp) for tp in change.partitions}
            if change.kind == "assigned":
                again.extend(sorted(changed & revoked))
            else:
                revoked |= changed
        return again

    def owned_at_once(self, tolerance: float) -> list[tuple[PartitionId, str, str, float]]:
        """See `ownership_conflicts`, by the times at which the callbacks were recorded."""
        return ownership_conflicts(self.history, tolerance)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for member in self.members.values():
            member.end()
        for name in list(self.members):
            self.stop(name)


# Checks of ownership, and of the records that were read.


def ownership_conflicts(
    changes: Iterable[Change], tolerance: float = 0.0, until: float | None = None
) -> list[tuple[PartitionId, str, str, float]]:
    """Return (partition, owner, other owner, seconds) where two members owned a partition.

    For longer than ``tolerance`` seconds. A member that closes, or is killed or suspended, owns
    nothing from then on. Those that own a partition after the last change count ``until`` a time.
    """
    owners: dict[PartitionId, dict[str, float]] = {}
    conflicts = []

    def release(tp: PartitionId, member: str, when: float) -> None:
        since = owners.get(tp, {})
        mine = since.pop(member, when)
        for other, begin in since.items():
            if (seconds := when - max(begin, mine)) > tolerance:
                conflicts.append((tp, member, other, seconds))

    for change in sorted(changes, key=lambda change: change.when):
        if change.kind == "assigned":
            for tp in sorted(change.partitions):
                owners.setdefault(tp, {}).setdefault(change.member, change.when)
            continue
        released = change.partitions if change.kind in ("revoked", "lost") else owners.keys()
        for tp in sorted(released):
            release(tp, change.member, change.when)
    if until is not None:
        for tp, since in owners.items():
            for member in sorted(since):
                release(tp, member, until)
    return conflicts


def read_again(reads: Reads) -> int:
    """Return how many records of a partition were read more than once.

    Raise AssertionError if records were skipped: reading begins with the first one, and each is
    followed by the next one or, if it was not committed, by an earlier one.
    """
    expected = 0
    for _, offset, member in reads.seen:
        assert offset <= expected, f"{member} read {offset}, expected at most {expected}"
        expected = offset + 1
    return reads.count - len(reads.offsets())


class Sender(Protocol):
    """A producer of one topic."""

    @property
    def acknowledged(self) -> Mapping[int, set[int]]:
        """Acknowledged offsets by partition."""


def everything_is_read(
    reads_of: Callable[[PartitionId], Reads],
    topic: str,
    sent: Sender,
    within: float = TEST_TIMEOUT,
) -> None:
    """Wait until every acknowledged record has been read.

    Raise AssertionError after ``within`` seconds, with the missing records and their neighbours.
    """

    def missing() -> dict[int, list[int]]:
        return {
            partition: sorted(left)
            for partition, offsets in sent.acknowledged.items()
            if (left := offsets - reads_of((topic, partition)).offsets())
        }

    try:
        wait_until(lambda: not missing(), within, "everything is read")
    except AssertionError as error:
        details = []
        for partition, left in missing().items():
            neighbours = (left[0] - 1, left[-1] + 1)
            around = [seen for seen in reads_of((topic, partition)).seen if seen[1] in neighbours]
            details.append(
                f"{topic}-{partition}: {len(left)} of {len(sent.acknowledged[partition])},"
                f" {left[0]} to {left[-1]}, read before and after: {around}"
            )
        raise AssertionError(f"{error}: {'; '.join(details)}") from None


def everything_is_committed(cluster: Cluster, group_id: str, sent: SteadyProducer) -> None:
    """Wait until the committed offset of each partition is the one after the last record sent.

    Members that have read everything commit it within a second. A member that leaves earlier
    commits as it leaves, unless a rebalance is in progress because others leave. So call this
    before members leave, and again afterwards.
    """
    expected = {partition: max(offsets) + 1 for partition, offsets in sent.acknowledged.items()}

    def actual() -> dict[int, int]:
        return {partition: at for (_, partition), at in committed(cluster, group_id).items()}

    with suppress(AssertionError):
        wait_until(lambda: actual() == expected, TEST_TIMEOUT, "everything is committed")
    assert actual() == expected
