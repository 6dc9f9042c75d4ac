"""Layouts of replicas and leaders: builders, checks that raise AssertionError, and placers.

The checks of leader layouts compare with optima by enumeration. Placers are valid and invalid ones
of a third party, which tests name as module:Class.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from hypothesis import strategies as st

from placement_core import (
    Broker,
    ClusterView,
    PlacementSpec,
    ReplicaLists,
    TopicPartition,
    parse_rack,
)
from placement_core.leaders import ConsumerDemand, CurrentAssignment, LeaderLayout, Locality

Racks = Mapping[int, str | None]


def check_form(
    layout: ReplicaLists, partitions: int, replicas: int, brokers: Iterable[int]
) -> None:
    """Assert that every partition has ``replicas`` different brokers out of ``brokers``."""
    assert type(layout) is tuple, f"the layout is a {type(layout).__name__}"
    assert len(layout) == partitions, f"{len(layout)} partitions, not {partitions}"
    allowed = set(brokers)
    for partition, row in enumerate(layout):
        assert type(row) is tuple, f"partition {partition} is a {type(row).__name__}"
        assert len(row) == replicas, f"partition {partition} has {row}, not {replicas} replicas"
        assert len(set(row)) == len(row), f"partition {partition} repeats a broker: {row}"
        assert allowed.issuperset(row), f"partition {partition} is on {row}, outside {allowed}"


def check_racks(layout: ReplicaLists, racks: Racks) -> None:
    """Assert at most one replica per rack if racks >= RF, else at least one."""
    all_racks = {parse_rack(rack) for rack in racks.values()}
    for partition, row in enumerate(layout):
        used = {parse_rack(racks[broker]) for broker in row}
        assert len(used) == min(len(row), len(all_racks)), (
            f"partition {partition} on {row} is in {len(used)} of {len(all_racks)} racks"
        )


def counts(brokers: Iterable[int], chosen: Iterable[int]) -> dict[int, int]:
    """Return how often each broker is chosen, including 0."""
    return {**dict.fromkeys(brokers, 0), **Counter(chosen)}


def check_leaders(layout: ReplicaLists, brokers: Iterable[int], slack: int = 0) -> None:
    """Assert that the leaders of any two brokers differ by ``slack`` at most."""
    _even("leaders", counts(brokers, (row[0] for row in layout)), slack)


def check_replicas(layout: ReplicaLists, brokers: Iterable[int], slack: int = 0) -> None:
    """Assert that the replicas of any two brokers differ by ``slack`` at most."""
    _even("replicas", counts(brokers, (broker for row in layout for broker in row)), slack)


def _even(what: str, per_broker: Mapping[int, int], slack: int) -> None:
    values = per_broker.values()
    assert max(values) - min(values) <= slack, (
        f"{what} are uneven by more than {slack}: {per_broker}"
    )


def check_tree(layout: ReplicaLists, racks: Racks) -> None:
    """Assert that each partition is as even at every node as the children's sizes permit.

    A child with more replicas than another by two or more is right only where that other is
    full. Brokers are the children of their rack.
    """
    paths = {broker: (*(parse_rack(rack) or ()), broker) for broker, rack in racks.items()}
    sizes = _below(paths, paths)
    for partition, row in enumerate(layout):
        has = _below(paths, row)
        for one, size in sizes.items():
            if has[one] == size:
                continue
            crowded = {
                other: has[other]
                for other in sizes
                if other[:-1] == one[:-1] and has[other] > has[one] + 1
            }
            assert not crowded, (
                f"partition {partition} on {row} has {has[one]} below {one} with room for "
                f"{size}, and {crowded}"
            )


def _below(
    paths: Mapping[int, tuple[object, ...]], brokers: Iterable[int]
) -> Counter[tuple[object, ...]]:
    """Return the number of ``brokers`` below each node."""
    return Counter(
        paths[broker][: depth + 1] for broker in brokers for depth in range(len(paths[broker]))
    )


def check_present_first(layout: ReplicaLists, present: ReplicaLists) -> None:
    """Assert that the present replicas come first, in their order."""
    for partition, (row, before) in enumerate(zip(layout, present, strict=False)):
        assert row[: len(before)] == before, f"partition {partition}: {before} became {row}"


def cluster(
    racks: Mapping[int, str | None] | Sequence[str | None], **topics: ReplicaLists
) -> ClusterView:
    """Return a view of brokers by id, or numbered from 0, and of topics by name."""
    if not isinstance(racks, Mapping):
        racks = dict(enumerate(racks))
    return ClusterView(
        tuple(Broker(broker, rack) for broker, rack in racks.items()),
        {
            TopicPartition(topic, partition): row
            for topic, rows in topics.items()
            for partition, row in enumerate(rows)
        },
    )


def layout(text: str) -> ReplicaLists:
    """Return ``"031 315"`` as ((0, 3, 1), (3, 1, 5))."""
    return tuple(tuple(map(int, word)) for word in text.split())


@st.composite
def rack_sizes(draw: st.DrawFn, max_racks: int = 5) -> dict[int, str]:
    """Draw one to ``max_racks`` racks of one to five brokers each, ids in any order."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=max_racks))
    ids = draw(st.permutations(range(sum(sizes))))
    names = [f"rack{index}" for index, size in enumerate(sizes) for _ in range(size)]
    return dict(zip(ids, names, strict=True))


@st.composite
def rack_trees(draw: st.DrawFn) -> dict[int, str]:
    """Draw one to nine brokers anywhere in a tree of up to three levels, some levels left out."""
    level = st.sampled_from("ab")
    paths = st.lists(level, min_size=1, max_size=3).map(lambda names: "/" + "/".join(names))
    return dict(enumerate(draw(st.lists(paths, min_size=1, max_size=9))))


# Leader layouts: optima by enumeration, checks, random cases.

Leaders = Mapping[TopicPartition, int | None]


def quotas(readers: ConsumerDemand, partitions: int) -> Iterator[dict[str | None, int]]:
    """Yield every distribution of partitions over racks that a balanced assignment may have."""
    consumers = {rack: n for rack, n in readers.consumers.items() if n}
    each, rest = divmod(partitions, sum(consumers.values()))
    for extra in product(*(range(min(n, rest) + 1) for n in consumers.values())):
        if sum(extra) == rest:
            yield {
                rack: n * each + more
                for (rack, n), more in zip(consumers.items(), extra, strict=True)
            }


def local(view: ClusterView, readers: ConsumerDemand, leaders: Leaders) -> int:
    """Return the maximum of partitions that a balanced assignment reads locally."""
    read = [p for p in view.replicas if p.topic in readers.topics]
    racks = view.racks()
    led = Counter(
        racks[leader] for p in read if (leader := leaders.get(p)) is not None and racks.get(leader)
    )
    return max(
        sum(min(led[rack], quota) for rack, quota in quota_of.items() if rack)
        for quota_of in quotas(readers, len(read))
    )


def value(
    view: ClusterView,
    readers: Sequence[ConsumerDemand],
    leaders: Leaders,
    assignments: Sequence[CurrentAssignment] = (),
) -> tuple[float, int, int]:
    """Return the weight of partitions not read locally, squared leaders per broker, changes.

    With ``assignments``, changes come before squared leaders.
    """
    off, racks = 0.0, view.racks()
    for one in readers:
        count = sum(p.topic in one.topics for p in view.replicas)
        if count and sum(one.consumers.values()):
            off += one.weight * (count - local(view, one, leaders))
    for kept in assignments:
        owned_locally = owned_in_leader_racks(view, kept, leaders)
        off += sum(kept.weight(p) for p in kept.racks.keys() - owned_locally)
    loads = Counter(leader for leader in leaders.values() if leader in racks)
    squares = sum(n * n for n in loads.values())
    changes = sum(
        view.replicas[p][0] != leader and view.replicas[p][0] in racks
        for p, leader in leaders.items()
    )
    return (off, changes, squares) if assignments else (off, squares, changes)


def owned_in_leader_racks(
    view: ClusterView, kept: CurrentAssignment, leaders: Leaders
) -> set[TopicPartition]:
    """Return the partitions whose owner is in the rack of the leader."""
    racks = view.racks()
    return {
        p
        for p, rack in kept.racks.items()
        if rack is not None and (leader := leaders.get(p)) is not None and racks.get(leader) == rack
    }


def all_leaders(view: ClusterView) -> Iterator[Leaders]:
    """Yield every choice of leaders among the replicas on live brokers."""
    live = view.racks()
    options = [[b for b in row if b in live] or [row[0]] for row in view.replicas.values()]
    for leaders in product(*options):
        yield dict(zip(view.replicas, leaders, strict=True))


def best_value(
    view: ClusterView,
    readers: Sequence[ConsumerDemand],
    assignments: Sequence[CurrentAssignment] = (),
    limits: Mapping[int, int] | None = None,
) -> tuple[float, int, int]:
    """Return the minimum value of all choices of leaders, with ``limits`` per broker."""
    return min(
        value(view, readers, leaders, assignments)
        for leaders in all_leaders(view)
        if limits is None
        or all(list(leaders.values()).count(broker) <= limit for broker, limit in limits.items())
    )


def chosen(view: ClusterView, layout: LeaderLayout) -> dict[TopicPartition, int | None]:
    return {p: layout.order.get(p, row)[0] for p, row in view.replicas.items()}


def check_layout(
    view: ClusterView,
    readers: Sequence[ConsumerDemand],
    layout: LeaderLayout,
    assignments: Sequence[CurrentAssignment] = (),
) -> None:
    """Assert that only the order changes, that localities match the enumeration or the owners, and
    that obstacles are named for what is not local."""
    for partition, row in layout.order.items():
        was = view.replicas[partition]
        assert sorted(row) == sorted(was), f"{partition}: {was} became {row}"
        behind = [broker for broker in was if broker != row[0]]
        assert list(row[1:]) == behind, f"{partition}: {was} became {row}: followers moved"
    changed = [p for p, row in layout.order.items() if view.replicas[p] != row]
    moved = [move.partition for move in layout.moves]
    assert moved == sorted(changed), f"moves of {moved}, not of {sorted(changed)}"
    today: Leaders = {p: row[0] for p, row in view.replicas.items()}
    expected = []
    everyone: list[ConsumerDemand | CurrentAssignment] = [*readers, *assignments]
    for one in everyone:
        partitions = [p for p in view.replicas if p.topic in one.topics]
        idle = isinstance(one, ConsumerDemand) and not sum(one.consumers.values())
        if idle or not partitions:
            continue
        before, after = (
            local(view, one, leaders)
            if isinstance(one, ConsumerDemand)
            else len(owned_in_leader_racks(view, one, leaders))
            for leaders in (today, chosen(view, layout))
        )
        expected.append(Locality(one.name, len(partitions), before, after))
        if isinstance(one, CurrentAssignment):
            unmet = [p for each in layout.unmet if each.name == one.name for p in each.partitions]
            assert len(unmet) == len(set(unmet)) == len(partitions) - after
    assert list(layout.localities) == expected


RACKS = ("a", "b", "c", "d")


def random_view(rng: random.Random, partitions: int, topics: str = "t") -> ClusterView:
    """Return random replicas, some on a missing broker, some on brokers without a rack."""
    racks: list[str | None] = list(RACKS[: rng.randint(1, 4)])
    if rng.random() < 0.15:
        racks.append(None)
    brokers = tuple(Broker(n, rng.choice(racks)) for n in range(rng.randint(2, 6)))
    ids = [broker.id for broker in brokers] + ([9] if rng.random() < 0.2 else [])
    replicas = {}
    for n in range(partitions):
        count = min(rng.choice((1, 2, 3, 3)), len(ids))
        replicas[TopicPartition(topics[n % len(topics)], n // len(topics))] = tuple(
            rng.sample(ids, count)
        )
    return ClusterView(brokers, replicas)


def random_readers(rng: random.Random, name: str, topics: str = "t") -> ConsumerDemand:
    """Return a few consumers, some in a rack without brokers or in an unknown rack."""
    racks: list[str | None] = [*RACKS, None]
    consumers = {rack: rng.choice((0, 0, 1, 1, 2, 3)) for rack in rng.sample(racks, 4)}
    return ConsumerDemand(name, frozenset(topics), consumers, rng.choice((1.0, 1.0, 0.5, 2.0)))


# Placers of a third party.


@dataclass
class FixedPlacer:
    """Returns ``result``, or raises it if it is an exception."""

    result: Any = None
    seen: ClusterView | None = None

    def place(
        self,
        spec: PlacementSpec,  # noqa: ARG002
        view: ClusterView,
        broker_ids: Collection[int] | None = None,  # noqa: ARG002
    ) -> ReplicaLists | None:
        self.seen = view
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result  # type: ignore[no-any-return]


class Nested:
    """Contains a placer with ``from_properties``."""

    class Inner(FixedPlacer):
        @classmethod
        def from_properties(cls, properties: dict[str, str]) -> Nested.Inner:
            return cls(result=tuple((int(row),) for row in properties["rows"].split()))


class NoPlacer:
    """Lacks the method ``place``."""


def refuse() -> None:
    raise RuntimeError("out of order")


not_a_class = 7


class Raising:
    """Raises an error with two lines of text."""

    def place(self, *_: object) -> ReplicaLists:
        raise LookupError("the inventory\nis closed")


class Repeating:
    """Returns replica lists that contain a broker twice."""

    def place(self, spec: PlacementSpec, *_: object) -> ReplicaLists:
        return ((0, 0),) * spec.partitions
