"""Checks of layouts, which raise AssertionError, and builders of clusters and layouts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from hypothesis import strategies as st

from placement_core import Broker, ClusterView, ReplicaLists, TopicPartition, parse_rack

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
