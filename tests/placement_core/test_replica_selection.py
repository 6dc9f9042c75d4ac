"""The nearest replica: a table of cases, and any cluster against a definition by brute force."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_core import nearest_replica, tie_break

STRETCHED = {1: "/dc1/r1", 2: "/dc1/r2", 3: "/dc2/r1", 4: "/dc2/r2", 5: "/dc3/r1"}
ROOMS = {1: "/dc1/a/r1", 2: "/dc1/a/r2", 3: "/dc1/b/r1", 4: "/dc2/a/r1", 5: "/dc2/b/r1"}
FLAT = {1: "a", 2: "b", 3: "c", 4: "b"}
PARTLY: dict[int, str | None] = {1: "/dc1/r1", 2: None, 3: "", 4: "/dc2/r1"}


@pytest.mark.parametrize(
    ("client", "racks", "in_sync", "leader", "choice"),
    [
        # Its own rack, then its data centre, then the leader.
        ("/dc2/r1", STRETCHED, (1, 3, 5), 1, 3),
        ("/dc2/r9", STRETCHED, (1, 3, 5), 1, 3),
        ("/dc2/r9", STRETCHED, (1, 2, 5), 1, 1),
        ("/dc9/r1", STRETCHED, (1, 3, 5), 5, 5),
        # The leader among equals, but not before one that is nearer.
        ("/dc1/r1", STRETCHED, (1, 3, 5), 1, 1),
        ("/dc1/r9", STRETCHED, (1, 2, 5), 2, 2),
        ("/dc1/r1", STRETCHED, (1, 2, 5), 2, 1),
        # Out of sync is out of the question.
        ("/dc2/r1", STRETCHED, (1, 5), 1, 1),
        ("/dc2/r1", STRETCHED, (1, 4, 5), 1, 4),
        ("/dc2/r1", STRETCHED, (1,), 1, 1),
        ("/dc2/r1", STRETCHED, (), 1, 1),
        # Three levels: rack, room, data centre.
        ("/dc1/a/r2", ROOMS, (1, 2, 4), 4, 2),
        ("/dc1/a/r9", ROOMS, (2, 3, 4), 4, 2),
        ("/dc1/c/r1", ROOMS, (3, 4, 5), 4, 3),
        ("/dc2/b/r1", ROOMS, (1, 4, 5), 4, 5),
        # A client that says less than brokers do, and one that says more.
        ("/dc2", ROOMS, (1, 4), 1, 4),
        ("/dc1/a", ROOMS, (2, 3, 4), 4, 2),
        ("/dc2/a/r1/shelf3", ROOMS, (1, 4, 5), 5, 4),
        # Racks without levels are the same or not; one level is no level more than a name.
        ("b", FLAT, (1, 2, 3), 1, 2),
        ("d", FLAT, (1, 2, 3), 3, 3),
        ("/b", FLAT, (1, 2, 3), 3, 2),
        ("b/x", FLAT, (1, 2, 3), 3, 3),
        # Racks that are not known.
        (None, STRETCHED, (1, 3, 5), 5, 5),
        ("", STRETCHED, (1, 3, 5), 5, 5),
        (7, STRETCHED, (1, 3, 5), 5, 5),
        ("/dc2/r1", PARTLY, (1, 2, 4), 1, 4),
        ("/dc2/r1", PARTLY, (2, 4), 2, 4),
        ("/dc1/r2", PARTLY, (2, 4), 2, 2),
        ("/dc1/r2", PARTLY, (2, 3, 4), 4, 4),
        ("/dc3/r1", PARTLY, (1, 2, 3, 4), 2, 2),
        # A leader that the list of those in sync lacks.
        ("/dc2/r1", STRETCHED, (3, 5), 1, 3),
        ("/dc9/r1", STRETCHED, (3, 5), 1, 1),
    ],
)
def test_table(
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
    """Nearness by definition: levels in common (not known: none), the same rack beyond all."""
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
def test_against_the_definition(
    client: str | None, in_sync: dict[int, str | None], leader: int, turn: int, rng: object
) -> None:
    choice = nearest_replica(client, in_sync, leader, turn)
    assert choice == leader or choice in in_sync
    near = {broker: shared(client, rack) for broker, rack in in_sync.items()}
    nearest = max(near.values(), default=0)
    assert near.get(choice, 0) == nearest
    if near.get(leader, 0) == nearest:
        assert choice == leader
    else:
        equals = sorted(broker for broker in near if near[broker] == nearest)
        assert choice == equals[turn % len(equals)]
    shuffled = list(in_sync.items())
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert nearest_replica(client, dict(shuffled), leader, turn) == choice


def test_equals_share_the_partitions_of_a_topic_and_the_topics() -> None:
    racks = {1: "/dc1/r1", 2: "/dc2/r1", 3: "/dc2/r2", 4: "/dc2/r3"}

    def read_by(places: list[tuple[str, int]]) -> list[int]:
        choices = [nearest_replica("/dc2", racks, 1, tie_break(*place)) for place in places]
        return [choices.count(broker) for broker in (2, 3, 4)]

    assert read_by([("orders", partition) for partition in range(12)]) == [4, 4, 4]
    assert min(read_by([(f"topic-{number}", 0) for number in range(300)])) > 70


def test_a_turn_is_the_same_in_every_process() -> None:
    assert (tie_break("orders", 0), tie_break("orders", 7)) == (3845127662, 3845127669)
