"""Each check finds the violation that is injected into the history of a group, and no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from integration.chaos.checkers import (
    History,
    Sent,
    longest_gap,
    repeated,
    shared_partitions,
    skipped,
    violations,
    without_owner,
)
from integration.chaos.scenarios import GROUPS, LED, SCENARIOS, Action
from integration.support.clients import PartitionId
from integration.support.groups import Change, Reads
from integration.support.offsets_topic import Commit, Generation

T0, T1 = ("t", 0), ("t", 1)
BOUND = 10.0


def reads(*offsets: int) -> dict[int, Reads]:
    return {0: Reads([(float(at), offset, "m") for at, offset in enumerate(offsets)])}


def change(when: float, member: str, kind: str, *tps: PartitionId) -> Change:
    return Change(when, member, kind, frozenset(tps))


def read_each_second(member: str, first: int, last: int) -> list[tuple[float, int, str]]:
    """Return the reads of offset n at n seconds."""
    return [(float(offset), offset, member) for offset in range(first, last)]


# Members a and b, in racks a and b, own partitions 0 and 1. Member a is killed at 10 s; b owns its
# partition from 15 s on, until 20 s, when a second member in rack a takes it. Each partition has 40
# records, which are read at a second each; b reads record 9 again, which a had not committed.
KILLED, TAKEN, RETURNED, END = 10, 15, 20, 40

CLEAN = History(
    topic="t",
    sent=[
        Sent(
            began=0.0,
            ended=float("inf"),
            acknowledged={p: range(END) for p in (0, 1)},
            stored={p: range(END) for p in (0, 1)},
        )
    ],
    reads={
        0: Reads(
            [
                *read_each_second("a", 0, KILLED),
                *((float(TAKEN), offset, "b") for offset in range(KILLED - 1, TAKEN)),
                *read_each_second("b", TAKEN, RETURNED),
                *read_each_second("a2", RETURNED, END),
            ]
        ),
        1: Reads(read_each_second("b", 0, END)),
    },
    changes=[
        change(0.0, "a", "assigned", T0),
        change(0.0, "b", "assigned", T1),
        change(KILLED, "a", "killed"),
        change(TAKEN, "b", "assigned", T0),
        change(RETURNED, "b", "revoked", T0),
        change(RETURNED + 1, "a2", "assigned", T0),
    ],
    claims=[(1, T0, "a"), (1, T1, "b"), (2, T0, "b"), (2, T1, "b"), (4, T0, "a2"), (4, T1, "b")],
    commits={
        T0: [Commit(9.5, 9), Commit(16.0, 15), Commit(39.5, END)],
        T1: [Commit(20.5, 20), Commit(39.5, END)],
    },
    generations=[
        Generation(1, {("a", "id-a"): frozenset({T0}), ("b", "id-b"): frozenset({T1})}),
        Generation(2, {("b", "id-b"): frozenset({T0, T1})}),
        Generation(3, {("b", "id-b"): frozenset({T1}), ("a2", "id-a2"): frozenset()}),
        Generation(4, {("b", "id-b"): frozenset({T1}), ("a2", "id-a2"): frozenset({T0})}),
    ],
    disturbed=(float(KILLED), float(END)),
    bound=BOUND,
    owned={"a2": frozenset({T0}), "b": frozenset({T1})},
    racks={"a2": "a", "b": "b"},
    leader_racks=("a", "b"),
)


def test_a_group_that_recovers_violates_nothing() -> None:
    assert violations(CLEAN) == []
    assert longest_gap(CLEAN) == TAKEN - KILLED
    assert repeated(CLEAN) == 1


def without_read(history: History, offset: int) -> History:
    seen = [each for each in history.reads[1].seen if each[1] != offset]
    return replace(history, reads={**history.reads, 1: Reads(seen)})


def with_sent(history: History, **fields: Any) -> History:
    return replace(history, sent=[replace(history.sent[0], **fields)])


def with_commits(history: History, *commits: Commit) -> History:
    return replace(history, commits={**history.commits, T1: list(commits)})


def read_late(history: History) -> History:
    """Read what was sent to partition 1 from 15 s to 30 s at 30 s."""
    seen = [
        (30.0 if 15 <= offset < 30 else at, offset, name)
        for at, offset, name in history.reads[1].seen
    ]
    return replace(history, reads={**history.reads, 1: Reads(seen)}, commits={T0: []})


INJECTED: dict[str, tuple[Callable[[History], History], list[str]]] = {
    "an acknowledged record is lost by the brokers": (
        lambda history: with_sent(
            history, stored={0: history.sent[0].stored[0], 1: history.sent[0].stored[1][:-1]}
        ),
        [
            "partition 1: 1 acknowledged records are not stored, the first has sequence number"
            f" {END - 1}"
        ],
    ),
    "a record is stored twice": (
        lambda history: with_sent(
            history,
            stored={**history.sent[0].stored, 1: [*history.sent[0].stored[1], END - 1]},
            acknowledged={0: history.sent[0].acknowledged[0], 1: []},
        ),
        [f"partition 1: at offset {END}, sequence number {END - 1} follows {END - 1}"],
    ),
    "the last record is not delivered": (
        lambda history: replace(without_read(history, END - 1), commits={T0: []}),
        ["partition 1: 1 records are not delivered"],
    ),
    "a record is passed over": (
        lambda history: replace(without_read(history, 7), commits={T0: []}),
        ["partition 1: 1 records are not delivered", "partition 1: b read 8 before 7"],
    ),
    "two members read a partition in a generation": (
        lambda history: replace(history, claims=[*history.claims, (4, T0, "b")]),
        ["t-0 is read by a2 and b in generation 4"],
    ),
    "two members are assigned a partition in a generation": (
        lambda history: replace(
            history,
            generations=[
                *history.generations,
                Generation(
                    5, {("b", "id-b"): frozenset({T0, T1}), ("a2", "id-a2"): frozenset({T0})}
                ),
            ],
        ),
        ["t-0 is assigned to a2 and b in generation 5"],
    ),
    "a committed offset goes back": (
        lambda history: with_commits(history, Commit(20.5, 20), Commit(21.0, 19)),
        ["t-1: offset 19 is committed after 20"],
    ),
    "an offset is committed before its records are delivered": (
        lambda history: with_commits(history, Commit(20.5, 30)),
        ["t-1: 30 is committed 8.5 s before it is delivered up to there"],
    ),
    "an offset is committed whose records are never delivered": (
        lambda history: with_commits(history, Commit(39.5, END + 1)),
        [f"t-1: {END + 1} is committed but never delivered up to there"],
    ),
    "a partition of a killed member has no owner for too long": (
        lambda history: replace(
            history,
            changes=[
                replace(each, when=each.when + 8) if each.member == "a2" else each
                for each in history.changes
                if (each.when, each.member) not in ((TAKEN, "b"), (RETURNED, "b"))
            ],
        ),
        ["t-0 had no owner for 19.0 s, the bound is 10 s"],
    ),
    "a partition is not read for too long though it has an owner": (
        read_late,
        ["partition 1 was not read for 16.0 s, the bound is 10 s"],
    ),
    "the final assignment crosses racks without need": (
        lambda history: replace(history, racks={"a2": "b", "b": "a"}),
        [
            "the final assignment has loads [1, 1] with 2 partitions off-rack,"
            " instead of [1, 1] with 0"
        ],
    ),
    "the final assignment is not balanced": (
        lambda history: replace(history, owned={"a2": frozenset({T0, T1}), "b": frozenset()}),
        [
            "the final assignment has loads [0, 2] with 1 partitions off-rack,"
            " instead of [1, 1] with 0"
        ],
    ),
    "nothing can be checked": (
        lambda history: replace(history, generations=[]),
        ["the brokers stored no commits, or no generations, of the group"],
    ),
    "at the end a partition has no owner": (
        lambda history: replace(history, owned={"a2": frozenset({T0}), "b": frozenset()}),
        ["at the end, partitions do not have one owner but {1: 0}"],
    ),
}


@pytest.mark.parametrize("injected", INJECTED)
def test_an_injected_violation_is_found(injected: str) -> None:
    inject, expected = INJECTED[injected]
    assert violations(inject(CLEAN)) == expected


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (reads(0, 1, 2), ""),
        (reads(0, 1, 1, 0, 1, 2), ""),
        # A member whose partition has another owner already.
        (reads(0, 1, 0, 2, 1, 2), ""),
        ({}, "3 records are not delivered"),
        (reads(0, 1), "1 records are not delivered"),
        (reads(0, 2, 1, 2), "m read 2 before 1"),
        (reads(1, 0, 1, 2), "m read 1 before 0"),
    ],
)
def test_skipped_records(seen: dict[int, Reads], expected: str) -> None:
    found = skipped({0: {0, 1, 2}}, seen)
    assert len(found) == bool(expected)
    assert expected in "".join(found)


def test_reads_are_checked_in_the_order_of_their_times() -> None:
    seen = {0: Reads([(2.0, 1, "new"), (1.0, 0, "old"), (3.0, 2, "new")])}
    assert skipped({0: {0, 1, 2}}, seen) == []


def test_reads_without_a_generation_say_nothing_of_owners() -> None:
    assert shared_partitions([(-1, T0, "a"), (-1, T0, "b")]) == []


def test_offsets_begin_again_with_a_topic_of_the_same_name() -> None:
    """Reads and commits before the second topic was made do not count for it."""
    second = replace(CLEAN.sent[0], began=100.0)
    moved = {
        p: Reads([*each.seen, *((at + 100.0, offset, name) for at, offset, name in each.seen)])
        for p, each in CLEAN.reads.items()
    }
    commits = {
        tp: [*each, *(replace(commit, at=commit.at + 100.0) for commit in each)]
        for tp, each in CLEAN.commits.items()
    }
    both = replace(
        CLEAN, sent=[replace(CLEAN.sent[0], ended=100.0), second], reads=moved, commits=commits
    )
    assert violations(both) == []
    assert repeated(both) == 2 * repeated(CLEAN)
    unread = {p: Reads(each.seen[:-1]) for p, each in moved.items()}
    assert violations(replace(both, reads=unread, commits={T0: []})) == [
        "partition 0: 1 records are not delivered",
        "partition 1: 1 records are not delivered",
    ]


def test_a_suspended_member_owns_nothing_until_it_goes_on() -> None:
    begin = [change(0.0, "a", "assigned", T0), change(10.0, "a", "suspended")]
    within = [*begin, change(15.0, "a", "resumed")]
    assert without_owner(within, [T0], (0.0, 60.0), BOUND) == []
    late = [*begin, change(30.0, "a", "resumed"), change(30.1, "a", "lost", T0)]
    assert without_owner([*late, change(25.0, "b", "assigned", T0)], [T0], (0.0, 60.0), BOUND) == [
        "t-0 had no owner for 15.0 s, the bound is 10 s"
    ]
    assert without_owner([*late, change(15.0, "b", "assigned", T0)], [T0], (0.0, 60.0), BOUND) == []


def test_a_partition_without_an_owner_at_the_end() -> None:
    changes = [change(0.0, "a", "assigned", T0), change(10.0, "a", "closing")]
    assert without_owner(changes, [T0, T1], (5.0, 21.0), BOUND) == [
        "t-0 had no owner for 11.0 s, the bound is 10 s",
        "t-1 had no owner for 16.0 s, the bound is 10 s",
    ]


# The scenarios.

UNDONE = {
    Action.KILL_BROKER: Action.START_BROKER,
    Action.STOP_BROKER: Action.START_BROKER,
    Action.PAUSE_BROKER: Action.RESUME_BROKER,
    Action.KILL_CONTROLLER: Action.START_CONTROLLER,
    Action.DELETE_TOPIC: Action.CREATE_TOPIC,
    Action.KILL_MEMBER: Action.START_MEMBER,
    Action.SUSPEND_MEMBER: Action.RESUME_MEMBER,
    Action.KILL_LEAD: Action.START_LEAD,
    Action.SUSPEND_LEAD: Action.RESUME_LEAD,
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_undoes_each_fault_and_repeats_with_its_seed(name: str) -> None:
    scenario = SCENARIOS[name]
    for seed in range(20):
        steps = scenario.drawn(seed)
        assert steps == scenario.drawn(seed)
        assert [step.at for step in steps if step.at] == sorted(
            step.at for step in steps if step.at
        )
        undo: list[Action] = []
        for step in steps:
            if step.action in UNDONE:
                undo.append(UNDONE[step.action])
            elif step.action in UNDONE.values():
                undo.remove(step.action)
        assert undo == []
    assert set(scenario.groups) <= {*GROUPS, *LED}
