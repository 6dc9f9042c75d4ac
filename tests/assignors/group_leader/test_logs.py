"""Log lines: each cause is logged once, and text from peers is sanitised."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors.consumer_protocol import MemberSubscription
from assignors.encoding import read_members
from assignors.group_leader import (
    GroupContext,
    Leaders,
    LogOnce,
    format_error,
    format_list,
    format_traceback,
    sanitize,
)
from assignors.group_leader.metadata import PartitionMetadata
from assignors.group_leader.monitor import LeaderMoveMonitor
from assignors.group_leader.rebalance import Leadership
from assignors.leader_moves import RefreshPolicy
from tests.support.group_leader import (
    FailingAssignor,
    Joined,
    joined_member,
    rebalanced,
    sticky_protocol,
)


@given(st.text(max_size=200), st.integers(4, 80))
def test_sanitised_text_is_short_and_printable(text: str, max_length: int) -> None:
    sanitised = sanitize(text, max_length)
    assert len(sanitised) <= max_length
    assert sanitised.isprintable()
    if text.isprintable() and len(text) <= max_length:
        assert sanitised == text


@pytest.mark.parametrize(
    ("text", "sanitised"),
    [
        ("abcdef", "abcdef"),
        ("abcdefg", "abc..."),
        ("a\nb", "a\\nb"),
        ("ab\ncd", "ab\\ncd"),
        ("abc\nd\n", "abc..."),
    ],
)
def test_text_is_cut_at_its_length_once_it_is_escaped(text: str, sanitised: str) -> None:
    assert sanitize(text, 6) == sanitised


def test_lists_are_cut() -> None:
    assert format_list([3, "b"]) == "3, b"
    assert format_list(list("abcd"), max_items=2) == "a, b and 2 more"
    assert format_list(list("abcd"), max_items=4) == "a, b, c, d"
    assert format_list(list("abcd"), max_items=3) == "a, b, c and 1 more"


def test_a_cause_is_logged_once_until_it_is_reset(caplog: pytest.LogCaptureFixture) -> None:
    log_once = LogOnce()
    for _ in range(3):
        log_once.log(("cause", 1), "first %d", 1)
        log_once.log(("cause", 2), "second")
    log_once.reset(("cause", 1))
    log_once.log(("cause", 1), "first %d", 2)
    assert caplog.messages == ["first 1", "second", "first 2"]


def test_the_causes_logged_last_are_remembered(caplog: pytest.LogCaptureFixture) -> None:
    log_once = LogOnce()
    for cause in range(LogOnce.MAX_CAUSES):
        log_once.log(cause, "cause %d", cause)
    log_once.log(0, "again")
    log_once.log("new", "new")
    caplog.clear()
    log_once.log(0, "still known")
    log_once.log(1, "forgotten")
    assert caplog.messages == ["forgotten"]
    log_once.reset("never logged")


def test_a_cause_has_its_level_and_the_lines_that_raised(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "rackward.assignors")
    try:
        raise OSError("quoted")
    except OSError as error:
        LogOnce().log("cause", "failed: %d", 7, level=logging.INFO, traceback_of=error)
    LogOnce().log("cause", "warning")
    first, second = caplog.records
    assert (first.levelno, second.levelno) == (logging.INFO, logging.WARNING)
    head, *lines = first.getMessage().split("\n")
    assert head == "failed: 7"
    assert 'raise OSError("quoted")' in lines[-1]
    assert second.getMessage() == "warning"


def test_errors_are_sanitised_and_tracebacks_do_not_quote_them() -> None:
    try:
        raise OSError(FORGED * 2000)
    except OSError as error:
        text, lines = format_error(error), format_traceback(error)
    assert text.startswith("OSError(")
    assert text.isprintable()
    assert len(text) == 200
    assert "test_logs.py" in lines
    assert "forged" not in lines
    assert format_error(None) == "None"


FORGED = "x\nERROR forged\x1b[31m\r\u2028\u202e"


@pytest.mark.parametrize("failing", [False, True], ids=["assignor", "failing-assignor"])
def test_control_characters_from_peers_never_reach_the_log(
    caplog: pytest.LogCaptureFixture, failing: bool
) -> None:
    """Member ids, client ids, instance ids, topics, racks and errors that quote them."""
    caplog.set_level(logging.DEBUG, "rackward.assignors")

    def weights(topic: str) -> list[float]:
        raise KeyError(topic)

    assignor = FailingAssignor(FORGED) if failing else None
    protocol = sticky_protocol(assignor, weights=weights)
    topics = (FORGED, "t", FORGED + "deleted")
    members: list[Joined] = [
        joined_member(f"{FORGED}-{'0' * 36}", FORGED, topics=topics),
        joined_member(f"{FORGED}2", None, topics=topics),
        joined_member(f"{FORGED}3", "/" + FORGED * 20, owned={FORGED: [0]}, topics=topics),
    ]
    undecodable = MemberSubscription(frozenset({FORGED}), errors=(f"user data: {FORGED}",))
    members.append((FORGED, FORGED, undecodable))
    leaders = Leaders(
        {"t": ["a", "b"], FORGED: [FORGED]},
        frozenset({FORGED + "deleted", FORGED + "pending"}),
        {0: FORGED + "broker", 1: None},
    )
    context = GroupContext(FORGED, 3)
    result = rebalanced(protocol, leaders, members, frozenset({FORGED + "deleted"}), context)
    monitor = LeaderMoveMonitor(RefreshPolicy(stable_seconds=0, unstable_seconds=0), protocol)
    monitor.start(3, read_members(members), result.assigned, leaders, now=0.0)

    def read(topics: Iterable[str]) -> tuple[Leaders, list[PartitionMetadata]]:
        raise OSError(f"{FORGED} {topics}")

    assert not monitor.check(read, 0.0, context)
    assert len(caplog.records) >= 8
    for record in caplog.records:
        line, *traceback = record.getMessage().split("\n")
        assert line.isprintable(), line
        assert len(line) < 1000
        assert not record.exc_info
        # Only source lines of the traceback follow.
        assert all(row.startswith("  ") and "forged" not in row for row in traceback)


def test_line_about_withheld_partitions_names_the_group(
    caplog: pytest.LogCaptureFixture,
) -> None:
    Leadership().on_revocation_timeout(GroupContext(FORGED, 3), 2)
    (line,) = caplog.messages
    assert line.isprintable()
    assert line.startswith("requesting a rebalance because withheld partitions were not revoked")
    assert line.endswith(" generation=3 withheld=2 seconds=30")
