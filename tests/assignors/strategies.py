"""Hypothesis strategies for groups: they shrink, where the seeded generator only draws."""

from __future__ import annotations

from hypothesis import strategies as st

from assignors import Member
from tests.assignors.random_groups import Group

TOPICS = ("t0", "t1", "t2", "t3")

rack_ids: st.SearchStrategy[str | None] = st.sampled_from(
    ["a", "b", "c", "/a", None, "", "/", "/dc1", "/dc1/r1", "/dc1/r2", "/dc2/r1", "/dc2/r1/s1"]
)
weight_values = st.one_of(
    st.floats(min_value=0, max_value=1e9),
    st.sampled_from([0.0, -1.0, float("nan"), float("inf"), float("-inf")]),
)


@st.composite
def leader_rack_maps(draw: st.DrawFn, partitions: int = 5) -> dict[str, list[str | None]]:
    """Some of the topics, with zero to ``partitions`` partitions each."""
    known = draw(st.lists(st.sampled_from(TOPICS), unique=True, max_size=3))
    return {topic: draw(st.lists(rack_ids, max_size=partitions)) for topic in known}


@st.composite
def groups(draw: st.DrawFn, members: int = 4) -> Group:
    """Up to ``members`` members with any subscriptions, claims, racks and generations."""
    leader_racks = draw(leader_rack_maps())
    ids = draw(st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=members))
    claims = st.dictionaries(
        st.sampled_from([*TOPICS, "gone"]), st.lists(st.integers(-1, 6), max_size=6), max_size=3
    )
    return Group(
        members=tuple(
            Member(
                id=id_,
                topics=draw(st.frozensets(st.sampled_from(TOPICS))),
                rack=draw(rack_ids),
                instance_id=draw(st.none() | st.sampled_from(["i1", "i2"]).map(id_.__add__)),
                owned=draw(claims),
                generation=draw(st.integers(-1, 2)),
            )
            for id_ in ids
        ),
        leader_racks=leader_racks,
        weights=draw(
            st.none()
            | st.dictionaries(st.sampled_from(TOPICS), st.lists(weight_values, max_size=6))
        ),
        max_imbalance=draw(st.sampled_from([0.0, 0.0, 0.5, 1.0, 3.0])),
        co_partitioned=draw(st.booleans()),
    )
