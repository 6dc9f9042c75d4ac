"""Options and rows of rackward lead; the command itself is tested in integration/lead."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

import msgspec
import pytest

from assignors.leader_moves import DEFAULT_REFRESH_POLICY, RefreshPolicy
from placement_core import InvalidOptionError
from rackward.cli.lead import (
    LeadRow,
    app,
    group_status,
    parse_refresh,
    planned_action,
    question,
    show_rows,
    watch,
)
from rackward.kafka import CredentialsError
from rackward.kafka.groups import Group, GroupMember
from rackward.lead import GroupLeader, LeadOptions, LeadStatus, TakeOver, TakeOverPolicy
from rackward.lead.assigner import AssignmentMetrics
from rackward.lead.led_group import LedRebalance
from rackward.lead.take_over import bucket
from tests.support.consoles import rendered
from tests.support.described_groups import group, member

FIRST, *_ = (n for n in range(100) if bucket(f"c-{n}", 16) == 0)
FAR = [n for n in range(100) if bucket(f"c-{n}", 16)][:3]


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
        (["g"], "confirmation needed but stdin is not a terminal: pass --yes or --dry-run"),
        (["--json", "g"], "confirmation needed but stdin is not a terminal"),
        (["--protocol", "x", "g"], "--protocol x: write NAME=STRATEGY"),
        (["--mapping", "x", "g"], "--mapping: "),
        (["--worker-group", "a/b", "g"], "--worker-group a/b: use letters"),
        (["--health", "8080", "g"], "--health 8080: write HOST:PORT"),
    ],
)
def test_errors_of_options_come_before_any_connection(arguments: list[str], problem: str) -> None:
    with pytest.raises(InvalidOptionError, match=problem):
        app([*arguments, "--bootstrap-server", "127.0.0.1:1"], standalone_mode=False)


def test_a_leader_logs_and_prints_only_json(capsys: pytest.CaptureFixture[str]) -> None:
    class Leader:
        failure = CredentialsError("authentication failed")

        def status(self) -> tuple[LeadStatus, ...]:
            return (LeadStatus("g"),)

    for as_json, shown in ((False, ""), (True, '"group": "g"')):
        with pytest.raises(CredentialsError):
            watch(cast("GroupLeader", Leader()), as_json)
        out = capsys.readouterr().out
        assert shown in out
        assert bool(out) == as_json


def test_a_status_as_fields() -> None:
    figures = AssignmentMetrics(7, "range", 3, 12, 1, 1)
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    status = LeadStatus(
        "g", "leading", metrics=figures, rebalances=(LedRebalance(at, 1.0, figures),)
    )
    row = group_status(status)
    assert (row.group, row.state, row.protocol, row.generation) == ("g", "leading", "range", 7)
    assert (row.members, row.partitions, row.off_rack, row.optimum) == (3, 12, 1, 1)
    assert row.last_rebalance == "2026-01-02T03:04:05+00:00"


LONG = "team-payments.orders-settlement-reconciliation.production.eu-central-1.consumer-group-v2"
ROW = LeadRow(
    group=LONG,
    state="Stable",
    protocol="cooperative-sticky",
    members=3,
    partitions=12,
    local=2,
    off_rack=6,
    unknown=4,
    optimum=1,
    action="join, and lead when its leader leaves",
)


@pytest.mark.parametrize("width", [80, 100, 200])
def test_names_are_never_cut(width: int) -> None:
    text = rendered(lambda console: show_rows([ROW], console), width)
    assert text.replace("\n", "").count(LONG) == 1
    text = " ".join(text.split())
    assert "12 partitions: 2 local, 6 off-rack, 4 unknown, 1 off-rack at best" in text
    assert "join, and lead when its leader leaves" in text


def app_member(number: int, instance_id: str | None = None) -> GroupMember:
    owned, host = {"t": (number,)}, f"/10.0.0.{number}"
    return member(f"c-{number}", "a", owned, instance_id=instance_id, client_id="app", host=host)


REMOVING = LeadOptions(take_over=TakeOverPolicy(TakeOver.REMOVE))


@pytest.mark.parametrize(
    ("it", "options", "action", "removes"),
    [
        (None, REMOVING, "join, and lead from the first consumer on", 0),
        (group(app_member(1)), LeadOptions(), "join, and lead when its leader leaves", 0),
        (
            group(*map(app_member, FAR)),
            REMOVING,
            "join, remove 1 of 3 members, and lead: its leader, which brokers do not name",
            1,
        ),
        (
            group(*map(app_member, (*FAR[:2], FIRST))),
            REMOVING,
            "join, remove up to 2 of 3 members, and lead: its leader, which brokers do not name, "
            f"and those that would lead before this process (app at 10.0.0.{FIRST})",
            2,
        ),
        (
            group(app_member(FAR[0], "s"), app_member(FAR[1])),
            REMOVING,
            "join, remove 1 of 2 members, and lead: its leader, which brokers do not name; wait if "
            "its leader is one of 1 static member",
            1,
        ),
        (
            group(app_member(1), app_member(2), protocol="roundrobin"),
            REMOVING,
            "join while all its 2 members are removed, and lead: leaders with roundrobin may fail "
            "if a member reads nothing",
            2,
        ),
        (
            group(app_member(1), protocol="leader-rack-aware-range"),
            REMOVING,
            "none needed: its members use leader-rack-aware-range, which assigns by the racks of "
            "leaders; join, and lead only when its leader leaves",
            0,
        ),
        (
            group(app_member(1), leader="rackward-lead-1"),
            REMOVING,
            "join, and lead when the rackward lead that leads it leaves",
            0,
        ),
    ],
)
def test_what_leading_begins_with(
    it: Group | None, options: LeadOptions, action: str, removes: int
) -> None:
    assert planned_action(it, options) == (action, removes)


def test_the_question_has_the_number_of_members_that_are_removed() -> None:
    assert question([ROW]) == "Join 1 group? Each rebalances once"
    removing = msgspec.structs.replace(ROW, removes=2)
    left_alone = msgspec.structs.replace(ROW, action="none: brokers assign")
    assert question([removing, ROW, left_alone]) == (
        "Evict up to 2 members of 2 groups? They rejoin at their next heartbeat"
    )
