"""Rack ids; the nearest replica: cases, and any cluster against a definition by brute force."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_core import (
    common_levels,
    levels_crossed,
    nearest_replica,
    parse_rack,
    source_rack,
    tie_break,
)

STRETCHED = {1: "/dc1/r1", 2: "/dc1/r2", 3: "/dc2/r1", 4: "/dc2/r2", 5: "/dc3/r1"}
ROOMS = {1: "/dc1/a/r1", 2: "/dc1/a/r2", 3: "/dc1/b/r1", 4: "/dc2/a/r1", 5: "/dc2/b/r1"}
FLAT = {1: "a", 2: "b", 3: "c", 4: "b"}
PARTLY: dict[int, str | None] = {1: "/dc1/r1", 2: None, 3: "", 4: "/dc2/r1"}


@pytest.mark.parametrize(
    ("rack", "path"),
    [
        ("use1-az1", ("use1-az1",)),
        ("a/b", ("a/b",)),
        ("/dc1/room2/r7", ("dc1", "room2", "r7")),
        ("//dc1//r7/", ("dc1", "r7")),
        ("", None),
        ("/", None),
        ("//", None),
        (None, None),
        (7, None),
        (b"a", None),
        ("/a", ("a",)),
    ],
)
def test_rack_ids(rack: object, path: tuple[str, ...] | None) -> None:
    assert parse_rack(rack) == path


@pytest.mark.parametrize(
    ("one", "other", "crossed"),
    [
        ("/d/r", "/d/r", 0),
        ("/d/r", "/d/s", 1),
        ("/d/r", "/e/r", 2),
        ("/d", "/d/r", 1),
        ("/d", "/d", 0),
        ("/d", "/e", 2),
        ("/d/r", None, 2),
        (None, None, 2),
    ],
)
def test_levels_crossed(one: str | None, other: str | None, crossed: int) -> None:
    for a, b in ((one, other), (other, one)):
        assert levels_crossed(parse_rack(a), parse_rack(b), depth=2) == crossed


def test_common_levels() -> None:
    assert common_levels(("d", "r"), ("d", "s")) == 1
    assert common_levels(("d",), ("d", "s")) == 1
    assert common_levels(("d",), ("e",)) == 0


@pytest.mark.parametrize(
    ("client", "racks", "in_sync", "leader", "choice"),
    [
        # The rack of the client, then its data centre, then the leader.
        ("/dc2/r9", STRETCHED, (1, 3, 5), 1, 3),
        ("/dc2/r9", STRETCHED, (1, 2, 5), 1, 1),
        # The leader wins ties, but not against a nearer replica.
        ("/dc1/r1", STRETCHED, (1, 3, 5), 1, 1),
        ("/dc1/r9", STRETCHED, (1, 2, 5), 2, 2),
        # Replicas that are not in sync are not read.
        ("/dc2/r1", STRETCHED, (1, 4, 5), 1, 4),
        ("/dc2/r1", STRETCHED, (), 1, 1),
        # Three levels: rack, room, data centre.
        ("/dc1/a/r2", ROOMS, (1, 2, 4), 4, 2),
        ("/dc1/c/r1", ROOMS, (3, 4, 5), 4, 3),
        # A client rack with fewer levels than those of brokers, and one with more.
        ("/dc2", ROOMS, (1, 4), 1, 4),
        ("/dc1/a", ROOMS, (2, 3, 4), 4, 2),
        ("/dc2/a/r1/shelf3", ROOMS, (1, 4, 5), 5, 4),
        # Racks without levels are equal or not; /b ties b.
        ("b", FLAT, (1, 2, 3), 1, 2),
        ("/b", FLAT, (1, 2, 3), 3, 2),
        ("b/x", FLAT, (1, 2, 3), 3, 3),
        # Unknown racks.
        (None, STRETCHED, (1, 3, 5), 5, 5),
        (7, STRETCHED, (1, 3, 5), 5, 5),
        ("/dc2/r1", PARTLY, (1, 2, 4), 1, 4),
        ("/dc1/r2", PARTLY, (2, 4), 2, 2),
        ("/dc3/r1", PARTLY, (1, 2, 3, 4), 2, 2),
        # A leader that is not among the in-sync replicas.
        ("/dc2/r1", STRETCHED, (3, 5), 1, 3),
    ],
)
def test_worked_cases(
    client: object,
    racks: dict[int, str | None],
    in_sync: tuple[int, ...],
    leader: int,
    choice: int,
) -> None:
    assert nearest_replica(client, {broker: racks[broker] for broker in in_sync}, leader) == choice


RACKS = st.one_of(
    st.none(),
    st.sampled_from(["", "/", "a", "b", "/a", "/b"]),
    st.lists(st.sampled_from("ab"), min_size=1, max_size=3).map(lambda path: "/" + "/".join(path)),
)
IN_SYNC = st.dictionaries(st.integers(0, 6), RACKS, max_size=5)


def shared(one: str | None, other: str | None) -> float:
    """Return the number of common levels by definition; 0 for unknown and 99 for equal racks."""
    names = [
        [rack] if rack and rack[0] != "/" else [level for level in (rack or "").split("/") if level]
        for rack in (one, other)
    ]
    if not all(names):
        return 0
    if names[0] == names[1]:
        return 99
    return max(n for n in range(4) if names[0][:n] == names[1][:n] and n <= len(names[0]))


@given(RACKS, IN_SYNC, st.integers(0, 6), st.integers(0, 2**33), st.randoms(use_true_random=False))
def test_the_choice_matches_the_definition(
    client: str | None, in_sync: dict[int, str | None], leader: int, tie: int, rng: object
) -> None:
    choice = nearest_replica(client, in_sync, leader, tie)
    assert choice == leader or choice in in_sync
    near = {broker: shared(client, rack) for broker, rack in in_sync.items()}
    nearest = max(near.values(), default=0)
    assert near.get(choice, 0) == nearest
    if near.get(leader, 0) == nearest:
        assert choice == leader
    else:
        ties = sorted(broker for broker in near if near[broker] == nearest)
        assert choice == ties[tie % len(ties)]
    shuffled = list(in_sync.items())
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert nearest_replica(client, dict(shuffled), leader, tie) == choice


def test_ties_are_spread_over_partitions_and_topics() -> None:
    racks = {1: "/dc1/r1", 2: "/dc2/r1", 3: "/dc2/r2", 4: "/dc2/r3"}

    def partitions_per_broker(partitions: list[tuple[str, int]]) -> list[int]:
        choices = [nearest_replica("/dc2", racks, 1, tie_break(*tp)) for tp in partitions]
        return [choices.count(broker) for broker in (2, 3, 4)]

    assert partitions_per_broker([("orders", partition) for partition in range(12)]) == [4, 4, 4]
    assert min(partitions_per_broker([(f"topic-{number}", 0) for number in range(300)])) > 70


def test_the_tie_break_is_the_same_in_every_process() -> None:
    assert (tie_break("orders", 0), tie_break("orders", 7)) == (3845127662, 3845127669)


@pytest.mark.parametrize(
    ("client", "leader", "in_sync", "sends_rack", "source"),
    [
        ("b", "a", "abc", True, "b"),
        ("a", "a", "abc", True, "a"),
        ("d", "a", "abc", True, "a"),
        # Not in sync, or brokers without a selector.
        ("b", "a", "ac", True, "a"),
        ("b", "a", "", True, "a"),
        # Racks are compared as a whole: another rack of the data centre is not nearer.
        ("/dc2/r9", "/dc1/r1", ("/dc1/r1", "/dc2/r1"), True, "/dc1/r1"),
        ("b", None, "bc", True, "b"),
        # Clients that fetch without a rack, and those of which it is unknown.
        ("b", "a", "abc", False, "a"),
        ("b", "a", "abc", None, None),
        ("d", "a", "abc", None, "a"),
        ("a", "a", "abc", None, "a"),
        (None, "a", "abc", None, "a"),
    ],
)
def test_source_rack(
    client: str | None,
    leader: str | None,
    in_sync: tuple[str, ...] | str,
    sends_rack: bool | None,
    source: str | None,
) -> None:
    assert source_rack(client, leader, tuple(in_sync), sends_rack) == source
