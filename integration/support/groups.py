"""A consumer group of real consumers in threads, of any client library, and what happened to it.

    with ConsumerGroup(cluster, topics=["orders"]) as group:
        group.start("a1", rack="a")
        group.start("b1", rack="b")
        owned = group.settle(partitions={("orders", p) for p in range(36)})

Every member polls in a thread of its own and keeps a record: each assignment and
revocation, each record's partition, offset and time, and any error that ended it. Members are
KafkaConsumers unless the group, or a member of it, is given another ``client``.
"""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from integration.support.clients import Client, Joining, KafkaPython, MakeClient, Place, Strategies
from integration.support.topics import Trickle, committed
from rackward.clusters import Cluster
from tests.support.waiting import PATIENCE


class GroupError(AssertionError):
    """The group did not do what the test waited for; the message shows how it stands."""


@dataclass(frozen=True)
class Change:
    """Partitions that a member was given, gave up ("revoked") or found gone ("lost")."""

    when: float
    member: str
    kind: str
    places: frozenset[Place]


@dataclass
class Reads:
    """What was read of one partition: when, and by which member, each offset in turn."""

    seen: list[tuple[float, int, str]] = field(default_factory=list)

    def offsets(self) -> set[int]:
        """Every offset that anyone read."""
        return {offset for _, offset, _ in self.seen}

    def longest_gap(self, since: float, until: float) -> float:
        """The longest time without a record between two instants, in seconds."""
        times = sorted(at for at, _, _ in self.seen if since <= at <= until)
        edges = [since, *times, until]
        return max(b - a for a, b in itertools.pairwise(edges))


class Member(threading.Thread):
    """One consumer and its poll loop."""

    def __init__(
        self, group: ConsumerGroup, name: str, make: Callable[[], Client], thinks: float
    ) -> None:
        super().__init__(name=f"member-{name}", daemon=True)
        self.group = group
        self.label = name
        self.error: BaseException | None = None
        self._client: Client | None = None
        self._make = make
        self._thinks = thinks
        self._ending = threading.Event()
        self._subscription: dict[str, Any] | None = None
        self.start()

    def run(self) -> None:
        try:
            client = self._client = self._make()
            while not self._ending.is_set():
                wanted, self._subscription = self._subscription, None
                if wanted is not None:
                    client.subscribe(self._note, **wanted)
                found = client.poll(0.5)
                now = time.monotonic()
                for place, offset in found:
                    self.group.reads_of(place).seen.append((now, offset, self.label))
                self._ending.wait(self._thinks)
        except BaseException as error:  # noqa: BLE001 - told to whoever waits for the group
            self.error = error
        finally:
            if self._client is not None:
                self._client.close()

    def resubscribe(self, *, topics: Sequence[str] = (), pattern: str | None = None) -> None:
        """Subscribe to something else, at the next turn of the loop."""
        self._subscription = {"topics": topics, "pattern": pattern}

    def end(self) -> None:
        """Close the consumer at the next turn of the loop."""
        self._ending.set()

    def stop(self, timeout: float = PATIENCE) -> None:
        """Close the consumer (a dynamic member leaves, a static one does not) and the thread."""
        self.end()
        self.join(timeout)
        if self.is_alive():
            raise GroupError(f"member {self.label} did not stop in {timeout:g} s")

    @property
    def consumer(self) -> Any:
        """The client library's consumer, once it is made."""
        return self._client and self._client.consumer

    @property
    def owned(self) -> frozenset[Place]:
        """What it is assigned now."""
        return frozenset() if self._client is None else self._client.owned()

    @property
    def generation(self) -> int:
        """The generation it is in, -1 while it is in none or on its way to another."""
        return -1 if self._client is None else self._client.generation()

    def _note(self, kind: str, places: Iterable[Place]) -> None:
        change = Change(time.monotonic(), self.label, kind, frozenset(places))
        self.group.history.append(change)


class ConsumerGroup:
    """Members of one group on one cluster; leaving the ``with`` block stops them all."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        topics: Sequence[str] = (),
        client: MakeClient | None = None,
        strategies: Strategies | None = None,
        **settings: Any,
    ) -> None:
        """Members subscribe to ``topics`` and are what ``client`` makes, with ``settings``.

        ``strategies`` is short for ``client=KafkaPython(strategies)``.
        """
        self.id = f"group-{uuid.uuid4().hex[:8]}"
        self.members: dict[str, Member] = {}
        self.history: list[Change] = []
        self._cluster = cluster
        self._topics = list(topics)
        self._client = client or (KafkaPython(strategies) if strategies else KafkaPython())
        self._settings = settings
        self._reads: dict[Place, Reads] = {}
        self._lock = threading.Lock()

    def reads_of(self, place: Place) -> Reads:
        """What the group has read of a partition so far."""
        with self._lock:
            return self._reads.setdefault(place, Reads())

    def start(
        self,
        name: str,
        rack: str | None = None,
        *,
        client: MakeClient | None = None,
        strategies: Sequence[Any] | None = None,
        topics: Sequence[str] | None = None,
        pattern: str | None = None,
        thinks: float = 0.0,
        **settings: Any,
    ) -> Member:
        """Add a member; a rack without a door of its own bootstraps as one without a rack.

        It ``thinks`` for so many seconds between two polls. ``client``, ``strategies`` (of a
        KafkaConsumer), ``topics`` and ``settings`` are its own in place of the group's.
        """
        door = rack if rack in self._cluster.client_racks else None
        joining = Joining(
            bootstrap=self._cluster.bootstrap(door),
            group_id=self.id,
            name=name,
            rack=rack,
            settings={**({} if client else self._settings), **settings},
        )
        make = client or (self._client if strategies is None else KafkaPython(lambda _: strategies))
        member = Member(self, name, lambda: make(joining), thinks)
        member.resubscribe(
            topics=() if pattern else self._topics if topics is None else topics, pattern=pattern
        )
        self.members[name] = member
        return member

    def stop(self, name: str) -> None:
        """Close a member and forget it; its history and reads stay."""
        self.members.pop(name).stop()

    def settle(
        self,
        partitions: Collection[Place],
        *,
        within: float = PATIENCE,
        hold: float = 0.5,
        after: int = -1,
    ) -> dict[str, frozenset[Place]]:
        """Wait until all members are in one generation and own ``partitions``, each one once.

        It has to stay so for ``hold`` seconds, in a generation later than ``after``. Returns
        who owns what; GroupError after ``within`` seconds, or at once where a member died.
        """
        wanted = sorted(partitions)
        deadline = time.monotonic() + within
        since: float | None = None
        before: object = None
        while True:
            self.raise_errors()
            owned = {name: member.owned for name, member in self.members.items()}
            generations = {member.generation for member in self.members.values()}
            found = sorted(place for places in owned.values() for place in places)
            (generation,) = generations if len(generations) == 1 else (-1,)
            now = time.monotonic()
            state = (generation, owned)
            if generation > after and found == wanted:
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
                    f"{len(found)} of {len(wanted)} partitions owned, "
                    f"loads { {name: len(places) for name, places in owned.items()} }"
                )
            time.sleep(0.02)

    @property
    def generation(self) -> int:
        """The latest generation that a member is in."""
        return max((member.generation for member in self.members.values()), default=-1)

    def raise_errors(self) -> None:
        """Raise what ended a member's loop, if anything did."""
        for member in self.members.values():
            if member.error is not None:
                raise GroupError(f"member {member.label} died") from member.error

    def handed_back(self, since: float) -> list[tuple[str, Place]]:
        """Partitions that a member gave up and got again after that instant: none is right."""
        gone: set[tuple[str, Place]] = set()
        back = []
        for change in list(self.history):
            if change.when < since:
                continue
            touched = {(change.member, place) for place in change.places}
            if change.kind == "assigned":
                back.extend(sorted(touched & gone))
            else:
                gone |= touched
        return back

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for member in self.members.values():
            member.end()
        for name in list(self.members):
            self.stop(name)


# ---- What makes the reading of a partition right, whoever read it.


def read_again(reads: Reads) -> int:
    """How many records of a partition were read more than once.

    AssertionError where records were passed over: the first read is the partition's first, and
    each is followed by the next one or, where it was not committed, by an earlier one.
    """
    following = 0
    for _, offset, member in reads.seen:
        assert offset <= following, f"{member} read {offset} where {following} comes next"
        following = offset + 1
    return len(reads.seen) - len(reads.offsets())


def everything_is_read(
    reads_of: Callable[[Place], Reads], topic: str, sent: Trickle, within: float = PATIENCE
) -> None:
    """Wait until every record that was acknowledged has been read.

    AssertionError that names what is lacking, and who read around it, after ``within`` seconds.
    """
    deadline = time.monotonic() + within
    while True:
        lacking = {
            partition: sorted(missing)
            for partition, offsets in sent.acknowledged.items()
            if (missing := offsets - reads_of((topic, partition)).offsets())
        }
        if not lacking:
            return
        if time.monotonic() > deadline:
            raise AssertionError(
                f"not read within {within:g} s: "
                + "; ".join(
                    f"{topic}-{partition}: {len(missing)} of {len(sent.acknowledged[partition])},"
                    f" {missing[0]} to {missing[-1]}, read before and after: "
                    f"{_around(reads_of((topic, partition)), missing[0], missing[-1])}"
                    for partition, missing in lacking.items()
                )
            )
        time.sleep(0.05)


def everything_is_committed(cluster: Cluster, group_id: str, sent: Trickle) -> None:
    """Wait until the group's next record is, of each partition, the one after the last sent.

    Members that have read everything commit it by themselves within a second. Where all of them
    leave before that, each commits as it leaves, unless a rebalance that the others' leaving makes
    is just on its way: so ask for this before they leave, and again afterwards.
    """
    wanted = {partition: max(offsets) + 1 for partition, offsets in sent.acknowledged.items()}
    deadline = time.monotonic() + PATIENCE
    while True:
        found = {partition: at for (_, partition), at in committed(cluster, group_id).items()}
        if found == wanted or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    assert found == wanted


def _around(reads: Reads, first: int, last: int) -> list[tuple[float, int, str]]:
    return [seen for seen in reads.seen if seen[1] in (first - 1, last + 1)]
