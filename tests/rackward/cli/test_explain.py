"""Explanations of groups: groups that cannot be explained, the text in 80 columns, the JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from assignors.explain import Reason
from placement_core import ClusterView, InvalidOptionError
from rackward.cli.explain import show_explanation
from rackward.cli.output import format_json, print_json, stdout
from rackward.groups.explain import ExplainedGroup, check_explainable, explain_group
from rackward.groups.host_racks import HostRacks
from rackward.kafka.groups import Group, GroupMember
from tests.support.consoles import rendered
from tests.support.described_groups import group, member
from tests.support.simulated_cluster import cluster_state

TOPIC = "orders.of-a-rather-long-name-as-they-come.in-production"
LED = {"a": (0, 2, 4), "b": (2, 4, 0), "c": (4, 0, 2)}


def reader(name: str, rack: str | None, owned: Mapping[str, Sequence[int]]) -> GroupMember:
    id = f"{name}-3d8985c8-8135-4f9e-ac9d-98ba7dfe547c"
    return member(id, rack, owned, client_id=name, host="/10.0.0.7")


LOPSIDED = group(
    reader("a1", "a", {TOPIC: (0, 1, 2, 3)}),
    reader("b1", "b", {TOPIC: (4, 5, 6, 10)}),
    reader("c1", "c", {TOPIC: (7, 8, 9, 11)}),
    id="billing",
    protocol="leader-rack-aware-cooperative-sticky",
)
VIEW = cluster_state({TOPIC: [*([LED["a"]] * 10), LED["b"], LED["c"]]}).view


def explain(group: Group, view: ClusterView = VIEW, mapping: str | None = None) -> ExplainedGroup:
    return explain_group(group, view, HostRacks.parse_option("--mapping", mapping))


def render(explained: ExplainedGroup, mapping: str | None = None, width: int = 80) -> str:
    return rendered(lambda console: show_explanation(explained.summary(), console, mapping), width)


def one_line(explained: ExplainedGroup, mapping: str | None = None) -> str:
    """Return the text in one line, without the columns of a terminal."""
    return " ".join(render(explained, mapping, width=400).split())


def json_of(explained: ExplainedGroup) -> Any:
    return json.loads(format_json("groups explain", explained.summary()))


def test_the_text_has_reasons_and_remedies_in_80_columns() -> None:
    text = render(explain(LOPSIDED))
    assert max(map(len, text.splitlines())) <= 80
    text = " ".join(text.split())
    assert "Group billing: 3 members in 3 racks, 12 partitions of 1 topic" in text
    assert "Locality now 50.0 % 6 of 12 partitions off-rack" in text
    assert "At best 50.0 % 6 off-rack if balanced" in text
    assert "rackward leaders plan billing -o leaders.json" in text
    text = one_line(explain(LOPSIDED))
    assert "its member reads 4 in balance (too-many-leaders)" in text
    assert "Move 3 leaders to b and 3 to c: 0 off-rack at best" in text
    assert f"{TOPIC}: 4-9" in text


def test_a_process_that_leads_the_group_is_named() -> None:
    leader, other = (f"rackward-lead-{name}-3d8985c8-8135-4f9e-ac9d-98ba7dfe547c" for name in "xy")
    led = replace(LOPSIDED, protocol="range", leader=leader, waiting=(other,))
    shown = json_of(explain(led))
    assert (shown["leader"], shown["waiting"]) == (leader, [other])
    text = one_line(explain(led))
    assert f"Assignor: range Leader: rackward lead, member {leader}" in text
    assert f"member {other}: another one of them leads" in text
    assert "the group's assignor ignores leader racks" not in text
    assert "Use the assignor" not in text
    led = replace(led, leader=None)
    text = one_line(explain(led))
    assert "Leader:" not in text
    assert f"member {other}: another member leads" in text
    assert "the group's assignor ignores leader racks" in text


def test_mapping_gives_racks_to_members() -> None:
    rackless = replace(
        LOPSIDED,
        protocol="range",
        members=tuple(replace(each, rack=None) for each in LOPSIDED.members),
    )
    text = one_line(explain(rackless))
    assert "The racks of 3 members are unknown: see --mapping" in text
    assert "The racks of the 3 members that read them are unknown (rackless-member)" in text
    assert "Locality now unknown 0 of 12 partitions off-rack, 12 unknown At best unknown" in text
    assert "(no rack) 0 3 12 0 0 12" in text
    assert "--mapping 10.0.0.7=RACK" in text
    shown = json_of(explain(rackless))
    assert (shown["off_rack"], shown["unknown"], shown["optimum"]) == (0, 12, 0)
    mapping = "10.0.0.0/8=b"
    explained = explain(rackless, mapping=mapping)
    assert all(each.rack for each in explained.summary().members)
    text = render(explained, mapping, width=400)
    assert "rack a leads 10 partitions, and no member is in it" in text.replace("Rack", "rack")
    assert f"leaders plan billing --mapping {mapping} -o leaders.json" in text


def test_another_assignor_and_better_members_are_named() -> None:
    view = cluster_state({TOPIC: [LED["abc"[p % 3]] for p in range(12)]}).view
    explained = explain(replace(LOPSIDED, protocol="range"), view)
    text = one_line(explained)
    assert "Locality now 50.0 % 6 of 12 partitions off-rack" in text
    assert "the group's assignor (range) ignores leader racks" in text
    assert "Run rackward lead (rackward lead billing --take-over remove): 0 off-rack" in text
    assert "ignores leader racks (not-optimal)" in text
    # The leaders of all six are in the racks of their members.
    assert "Or: Move 6 leaders to the racks of the members that read them: 0 off-rack" in text
    shown = json_of(explained)
    assert shown["protocol"] == "range"
    assert shown["reference_assignor"] == "leader-rack-aware-range"
    (finding,) = shown["findings"]
    assert finding["reason"] == "not-optimal"
    assert len(finding["better"]) == finding["count"] == 6
    names = {each.id: each.rack for each in LOPSIDED.members}
    assert all(names[each["member"]] == "abc"[each["partition"] % 3] for each in finding["better"])
    shown = one_line(explain(LOPSIDED, view))
    assert "Rebalance the group (rackward groups rebalance billing): 0 off-rack at best" in shown


def kinds(explained: ExplainedGroup) -> dict[str, list[tuple[str, int | None]]]:
    """Return the kind and the figure of each remedy, by reason."""
    return {
        each["reason"]: [(one["kind"], one["off_rack_after"]) for one in each["remedies"]]
        for each in json_of(explained)["findings"]
    }


def test_new_protocol_is_advised_to_move_leaders_only() -> None:
    new = replace(LOPSIDED, type="consumer", protocol="uniform")
    shuffled = cluster_state({TOPIC: [LED["abc"[p % 3]] for p in range(12)]}).view
    assert kinds(explain(new, shuffled)) == {"not-optimal": [("fit-leaders", 0)]}
    assert kinds(explain(new)) == {"too-many-leaders": [("fit-leaders", 0)]}
    # Where half of the replicas are in rack a alone, their leaders stay.
    view = cluster_state({TOPIC: [*([(0, 1)] * 5), *([LED["a"]] * 5), LED["b"], LED["c"]]}).view
    assert kinds(explain(new, view)) == {"too-many-leaders": [("fit-leaders", 1)]}
    nothing = cluster_state({TOPIC: [(0, 1)] * 12}).view
    assert kinds(explain(new, nothing)) == {"too-many-leaders": []}
    for explained in (explain(new), explain(new, shuffled)):
        text = one_line(explained)
        assert "rackward leaders plan billing" in text
        assert "use the assignor" not in text.lower()
        assert "rackward lead " not in text
        assert "groups rebalance" not in text
    one = replace(new, members=(replace(new.members[0], assignment={TOPIC: tuple(range(12))}),))
    assert kinds(explain(one, cluster_state({TOPIC: [(2, 4)] * 12}).view)) == {
        "no-member-in-rack": []
    }


def test_rack_advice_depends_on_what_members_can_send() -> None:
    def text(can_send: bool | None, protocol: str = "range") -> str:
        members = tuple(
            replace(each, rack=None, can_send_rack=can_send) for each in LOPSIDED.members
        )
        changed = replace(LOPSIDED, protocol=protocol, members=members)
        return one_line(explain(changed))

    assert "Set client.rack of these members, or give their racks with --mapping" in text(True)
    unable = text(False)
    assert "Give the racks of these members with --mapping: their client does not send" in unable
    assert "client.rack" not in unable
    assert "or set client.rack where clients send it" in text(None)
    assert "RACKWARD_RACK" in text(True, "leader-rack-aware-range")


def test_no_name_of_a_peer_reaches_the_terminal_as_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Group, protocol, client and instance ids, racks, and a topic of broken metadata."""
    forged = "\x1b[2J\x9b31m\r\u202e"
    topic = TOPIC + forged
    named = [
        replace(
            reader(f"{name}{forged}", rack + forged, {topic: numbers}),
            instance_id=f"{name}{forged}" if name == "b1" else None,
        )
        for name, rack, numbers in (
            ("a1", "a", (0, 1, 2, 3)),
            ("b1", "b", (4, 5, 6, 10)),
            ("c1", "c", (7, 8, 9, 11)),
        )
    ]
    view = cluster_state({topic: [LED["abc"[p % 3]] for p in range(12)]}).view
    brokers = tuple(replace(each, rack=f"{each.rack}{forged}") for each in view.brokers)
    hostile = group(*named, id=f"billing{forged}", protocol=f"range{forged}")
    for each in (view, replace(view, brokers=brokers)):
        explained = explain(hostile, each)
        show_explanation(explained.summary(), stdout(), None)
        print_json("groups explain", explained.summary())
    shown = capsys.readouterr().out
    assert "billing\\x1b[2J" in shown
    assert "production\\x1b[2J" in shown
    assert all(line.isprintable() for line in shown.split("\n"))


def test_leaders_without_rack_and_partitions_without_leader() -> None:
    racks = ("a", None, "b", "b", "c", "c")
    broken = cluster_state(
        {TOPIC: [LED["a"], (1,), *([LED["a"]] * 8), LED["b"], (5,)]}, racks, down=[5]
    )
    explained = explain(LOPSIDED, broken.view)
    findings = {each["reason"]: each for each in json_of(explained)["findings"]}
    assert findings["rackless-broker"]["partitions"] == {TOPIC: [1]}
    assert findings["rackless-broker"]["remedies"][0]["brokers"] == [1]
    assert findings["no-leader"]["partitions"] == {TOPIC: [11]}
    assert not findings["no-leader"]["off_rack"]
    assert explained.explanation.unknown == 2


def test_leaders_that_cannot_move_without_a_replica_are_counted() -> None:
    view = cluster_state({TOPIC: [*([(0, 1)] * 10), LED["b"], LED["c"]]}).view
    text = one_line(explain(LOPSIDED, view))
    assert "Move 3 leaders to b and 3 to c: 0 off-rack at best (6 have no replica there)" in text


@pytest.mark.parametrize(
    ("group", "message"),
    [
        (None, "does not exist"),
        (replace(LOPSIDED, state="Empty", members=()), "has no members (state Empty)"),
        (replace(LOPSIDED, state="Dead", members=()), "has no members (state Dead)"),
        (replace(LOPSIDED, state="PreparingRebalance"), "is rebalancing"),
        # Led by `rackward lead`, whose member is not counted, while the others join again.
        (replace(LOPSIDED, state="CompletingRebalance", members=()), "is rebalancing"),
        (replace(LOPSIDED, state="Reconciling", type="consumer"), "is rebalancing"),
        (replace(LOPSIDED, protocol_type="connect", members=()), "workers of a Connect cluster"),
        (replace(LOPSIDED, protocol_type="", state="Empty", members=()), "(assign())"),
        (replace(LOPSIDED, protocol_type="sr", members=()), "of type sr, not of consumers"),
    ],
)
def test_groups_that_cannot_be_explained(group: Group | None, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=r"^group billing") as refused:
        check_explainable("billing", group)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_lines_are_not_wrapped_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    show_explanation(explain(LOPSIDED).summary(), stdout(), None)
    lines = capsys.readouterr().out.splitlines()
    assert any("Rack a leads 10 partitions, and its member reads 4 in balance" in x for x in lines)
    assert max(map(len, lines)) < 250


def test_partitions_read_from_followers_are_local() -> None:
    far = group(
        reader("a1", "a", {TOPIC: (10, 11)}),
        reader("b1", "b", {TOPIC: (0, 1, 2, 3, 4)}),
        reader("c1", None, {TOPIC: (5, 6, 7, 8, 9)}),
        protocol="range",
    )
    in_sync = dict.fromkeys(VIEW.replicas, frozenset("abc"))
    explained = explain_group(far, VIEW, HostRacks.parse_option("--mapping", "10.0.0.7=c"), in_sync)
    explanation = explained.explanation
    assert (explanation.local, explanation.off_rack, explanation.unknown) == (7, 0, 5)
    (finding,) = explanation.findings
    assert (finding.reason, finding.count) == (Reason.REPLICA_UNKNOWN, 5)
    assert explained.summary().read_from_followers == 7
    assert [(row.rack, row.local) for row in explained.summary().racks][:2] == [
        ("a", 2),
        ("b", 5),
    ]
    text = " ".join(render(explained).split())
    assert "From followers 7 partitions in the member's rack" in text
