"""Clusters for tests, written shortly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from placement_core import Broker, ClusterView, ReplicaLists, TopicPartition


def cluster(
    racks: Mapping[int, str | None] | Sequence[str | None], **topics: ReplicaLists
) -> ClusterView:
    """Brokers by id, or numbered from 0, and topics by name."""
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
    """``"031 315"`` as ((0, 3, 1), (3, 1, 5))."""
    return tuple(tuple(map(int, word)) for word in text.split())


@st.composite
def rack_sizes(draw: st.DrawFn, most: int = 5) -> dict[int, str]:
    """One to ``most`` racks of one to five brokers each, ids in any order."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=most))
    ids = draw(st.permutations(range(sum(sizes))))
    names = [f"rack{index}" for index, size in enumerate(sizes) for _ in range(size)]
    return dict(zip(ids, names, strict=True))


@st.composite
def rack_trees(draw: st.DrawFn) -> dict[int, str]:
    """One to nine brokers anywhere in a tree of up to three levels, some levels left out."""
    level = st.sampled_from("ab")
    paths = st.lists(level, min_size=1, max_size=3).map(lambda names: "/" + "/".join(names))
    return dict(enumerate(draw(st.lists(paths, min_size=1, max_size=9))))
