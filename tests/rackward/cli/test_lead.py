"""Options and rows of rackward lead; the command itself is tested in integration/lead."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

import pytest
from msgspec import to_builtins

from assignors.leader_moves import DEFAULT_REFRESH_POLICY, RefreshPolicy
from placement_core import InvalidOptionError
from rackward.cli.lead import app, group_status, parse_refresh, show_status
from rackward.kafka import CredentialsError
from rackward.lead import GroupLeader, LeadStatus
from rackward.lead.assigner import AssignmentMetrics


def test_the_refresh_policy() -> None:
    assert parse_refresh("--refresh", None) == DEFAULT_REFRESH_POLICY
    assert parse_refresh("--refresh", "off") is None
    given = parse_refresh("--refresh", "min_gain=0.1,min_partitions=3,check_interval=5")
    assert given == RefreshPolicy(min_gain=0.1, min_partitions=3, check_interval=5.0)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("gain=1", "unknown gain: use min_gain,"),
        ("min_gain=much", "give numbers"),
        ("min_gain=2", "min_gain is 2.0"),
        ("min_gain", "not of the form key=value"),
    ],
)
def test_errors_of_the_refresh_policy(text: str, problem: str) -> None:
    with pytest.raises(InvalidOptionError, match=rf"^--refresh: .*{problem}"):
        parse_refresh("--refresh", text)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--remove-static", "g"], "--remove-static without --take-over remove"),
        (["--take-over", "remove", "g"], "confirmation needed but stdin is not a terminal"),
        (["--protocol", "x", "g"], "--protocol x: write NAME=STRATEGY"),
        (["--mapping", "x", "g"], "--mapping: "),
        (["--worker-group", "a/b", "g"], "--worker-group a/b: use letters"),
        (["--health", "8080", "g"], "--health 8080: write HOST:PORT"),
    ],
)
def test_errors_of_options_come_before_any_connection(arguments: list[str], problem: str) -> None:
    with pytest.raises(InvalidOptionError, match=problem):
        app([*arguments, "--bootstrap-server", "127.0.0.1:1"], standalone_mode=False)


def test_without_a_terminal_there_are_no_tables(capsys: pytest.CaptureFixture[str]) -> None:
    class Leader:
        failure = CredentialsError("authentication failed")

        def status(self) -> tuple[LeadStatus, ...]:
            return (LeadStatus("g"),)

    for as_json, shown in ((False, ""), (True, '"group": "g"')):
        with pytest.raises(CredentialsError):
            show_status(cast("GroupLeader", Leader()), as_json)
        out = capsys.readouterr().out
        assert shown in out
        assert bool(out) == as_json


def test_a_status_as_fields() -> None:
    figures = AssignmentMetrics(7, "range", 3, 12, 1, 1)
    status = LeadStatus("g", "leading", "", figures, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert to_builtins(group_status(status)) == {
        "group": "g",
        "state": "leading",
        "reason": "",
        "protocol": "range",
        "generation": 7,
        "members": 3,
        "partitions": 12,
        "off_rack": 1,
        "optimum": 1,
        "last_rebalance": "2026-01-02T03:04:05+00:00",
        "action": None,
    }
