"""The audit against explanations, layouts of the whole cluster, and counts made here."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from assignors.explain import Reason, RemedyKind
from placement_core import RACK_AWARE_SELECTOR, ClusterView, TopicPartition, parse_rack
from placement_core.leaders import plan_leaders
from rack_traffic.advice import StepKind, can_be_reassigned
from rack_traffic.prices import PriceRule, PriceTable
from rack_traffic.report.format import Currency
from rack_traffic.writers import parse_writers
from rackward.cli.audit import write_lines
from rackward.groups.audit import audit_reading, groups_sharing_topics
from rackward.groups.audit_report import AuditReport, CrossRackReads, GroupAudit, SelectorBrokers
from rackward.groups.explain import explain_group
from rackward.groups.host_racks import HostRacks
from rackward.groups.readers import AssignmentKind, readers_of_groups
from rackward.groups.reading import ClusterReading, GroupReading, RateSource, ReadRates
from rackward.groups.writes import GB_A_MONTH
from rackward.kafka import ClusterState
from rackward.kafka.groups import Group, ListedGroup
from tests.support.described_groups import group as described_group
from tests.support.described_groups import member, random_group, random_state, view_of
from tests.support.simulated_cluster import cluster_state


def reading(state: ClusterState, *groups: Group) -> ClusterReading:
    readings = (
        GroupReading(ListedGroup(each.id, each.protocol_type, each.type, each.state), 0, each)
        for each in groups
    )
    return ClusterReading(state, tuple(readings))


def audit(
    read: ClusterReading,
    rates: ReadRates | None = None,
    prices: PriceTable | None = None,
    mapping: str | None = None,
    **options: Any,
) -> AuditReport:
    host_racks = HostRacks.parse_option("--mapping", mapping)
    return audit_reading(
        read, rates or ReadRates(), prices or PriceTable(), host_racks, mapping=mapping, **options
    )


@pytest.mark.parametrize("block", range(2))
def test_figures_match_explanations_and_layouts(block: int) -> None:
    moved = 0
    for seed in range(block * 20, block * 20 + 20):
        rng = random.Random(seed)
        state = random_state(rng)
        groups = [random_group(rng, state.view, f"g{n}") for n in range(rng.randint(1, 3))]
        rates = ReadRates(written={tp: rng.random() for tp in state.view.replicas})
        rows = {row.group: row for row in audit(reading(state, *groups), rates).groups}
        for group in groups:
            row = rows[group.id]
            explained = explain_group(group, view_of(group, state.view), HostRacks())
            explanation = explained.explanation
            assert row.assignor is not None
            assert row.layout is not None
            assert now(row).off_rack == explanation.off_rack, f"seed {seed}"
            assert row.assignor.off_rack == explanation.optimum, f"seed {seed}"
            assert row.local == explanation.local, f"seed {seed}"
            assert row.unknown == explanation.unknown + explanation.unread, f"seed {seed}"
            assert row.partitions == explanation.partitions, f"seed {seed}"
            for figure in (now(row), row.assignor, row.layout):
                assert figure.partitions == row.partitions, f"seed {seed}"
                assert figure.local + figure.off_rack + figure.unknown_partitions == row.partitions
            assert now(row).rate == pytest.approx(row.rate, abs=0.01), f"seed {seed}"
            crossing = count_crossing(group, state.view, rates.written)
            assert now(row).crossing == pytest.approx(crossing, abs=0.001), f"seed {seed}"
            assert [each.count for each in row.findings] == [
                each.count for each in explanation.findings
            ]
        # One group alone is laid out as `leaders plan` does it.
        group = groups[0]
        (alone,) = audit(reading(state, group), rates).groups
        assert alone.now is not None
        assert alone.assignor is not None
        assert alone.layout is not None
        kind = AssignmentKind.REASSIGNED if can_be_reassigned(group) else AssignmentKind.CURRENT
        readers = readers_of_groups([group], HostRacks(), kind)
        layout = plan_leaders(
            state.view,
            readers.demands,
            assignments=readers.assignments,
            topics=readers.topics & set(state.topic_ids),
            max_imbalance=readers.max_imbalance,
            only_gains=True,
        )
        reachable = alone.assignor if can_be_reassigned(group) else alone.now
        leaders = {**state.view.known_leaders, **{tp: o[0] for tp, o in layout.order.items()}}
        then = explain_group(
            group, view_of(group, replace(state.view, leaders=leaders)), HostRacks()
        ).explanation
        after = then.optimum if can_be_reassigned(group) else then.off_rack
        assert alone.layout.off_rack == min(after, reachable.off_rack), f"seed {seed}"
        moved += alone.layout.off_rack < reachable.off_rack
    assert moved


def count_crossing(group: Group, view: ClusterView, rates: Mapping[TopicPartition, float]) -> float:
    """Return the bytes per second between two known racks, counted here."""
    owners: dict[TopicPartition, list[str | None]] = {}
    for each in group.members:
        for topic, numbers in each.assignment.items():
            for number in numbers:
                owners.setdefault(TopicPartition(topic, number), []).append(each.rack)
    racks = view.racks()
    total = 0.0
    for tp, members in owners.items():
        leader = view.leader(tp)
        rack = None if leader is None else parse_rack(racks.get(leader))
        if len(members) == 1 and rack and parse_rack(members[0]) not in (None, rack):
            total += rates.get(tp, 0.0)
    return total


def group(name: str, shares: Sequence[Sequence[int]], **fields: Any) -> Group:
    """Return a group of topic "t" with a member per share, in the racks a, b, c in turn."""
    members = (
        member(
            f"{name}-{n}",
            "abc"[n % 3],
            {"t": share},
            client_id=f"consumer-{name}-{n}",
            can_send_rack=True,
        )
        for n, share in enumerate(shares)
    )
    return described_group(*members, id=name, **fields)


def now(row: GroupAudit) -> CrossRackReads:
    """Return what a group reads now."""
    assert row.now is not None
    return row.now


STATE = cluster_state(
    {"t": [(0, 2, 4)] * 4 + [(2, 4, 0), (4, 0, 2)]}, ("a", "a", "b", "b", "c", "c")
)
"""Partitions 0 to 3 are led in rack a, 4 in b and 5 in c."""


def test_costs_and_totals() -> None:
    far = group("far", [(4, 5), (0, 1), (2, 3)])
    near = group("near", [(0, 1), (4, 2), (5, 3)], protocol="leader-rack-aware-range")
    prices = PriceTable((PriceRule(0.02), PriceRule(0.5, from_rack="a", to_rack="c")))
    rates = ReadRates(
        written=dict.fromkeys(STATE.view.replicas, 1e6),
        committed={"near": {TopicPartition("t", 3): 2e6}},
        measured_seconds=10.0,
    )
    report = audit(reading(STATE, near, far), rates, prices)
    assert [row.group for row in report.groups] == ["far", "near"]
    costly, cheap = report.groups
    # Partitions 5 (c to a), 2 and 3 (a to c), and then 4, 0 and 1 between a and b.
    assert now(costly).cost == pytest.approx((3 * 0.5 + 3 * 0.02) * 1e6 * GB_A_MONTH)
    assert (now(costly).off_rack, costly.rate_source) == (6, RateSource.WRITTEN)
    assert now(cheap).cost == pytest.approx(0.5 * 2e6 * GB_A_MONTH)
    assert (now(cheap).off_rack, cheap.rate_source) == (2, RateSource.COMMITTED)
    total = report.totals.now
    assert (total.off_rack, total.cost) == (8, now(costly).cost + now(cheap).cost)
    kinds = {row.group: [step.kind for step in row.steps] for row in report.groups}
    assert kinds == {
        "far": [StepKind.LEAD, StepKind.MOVE_LEADERS],
        "near": [StepKind.MOVE_LEADERS],
    }
    # Both groups are named: they read one topic, and its leaders serve both.
    assert {row.steps[-1].lines[0] for row in report.groups} == {
        "rackward leaders plan far near -o leaders.json"
    }


def test_groups_without_figures_are_last_with_the_reason() -> None:
    readings = reading(
        STATE,
        group("rebalancing", [(0,)], state="PreparingRebalance"),
        group("empty", [], state="Empty"),
        group("connect", [], protocol_type="connect"),
        group("reads", [(0, 1, 2), (3, 4, 5)]),
    )
    refused = GroupReading(ListedGroup("secret", "consumer"), 1, error="not authorized: grant it")
    readings = replace(readings, groups=(*readings.groups, refused))
    report = audit(readings)
    assert [row.group for row in report.groups] == [
        *("reads", "connect", "empty", "rebalancing", "secret")
    ]
    reasons = {row.group: row.reason or "" for row in report.groups}
    assert reasons["reads"] == ""
    assert "workers of a Connect cluster" in reasons["connect"]
    assert reasons["empty"].startswith("it has no members (state Empty)")
    assert "is rebalancing" in reasons["rebalancing"]
    assert reasons["secret"] == "not authorized: grant it"
    assert report.totals.now.off_rack == 2


def test_members_of_a_share_group_read_equal_parts() -> None:
    """Partition 0, led in a, is read in a, b and c; 4, led in b, in a; 5 by nobody."""
    share = group(
        "s", [(0, 1, 4), (0, 2, 3), (0,)], type="share", protocol_type="share", protocol="simple"
    )
    rates = ReadRates(written=dict.fromkeys(STATE.view.replicas, 6.0))
    (row,) = audit(reading(STATE, share), rates).groups
    assert row.layout is not None
    assert (row.partitions, row.local, row.unknown, now(row).off_rack) == (8, 2, 1, 5)
    # Two thirds of 0, and all of 2, 3 and 4.
    assert (now(row).crossing, row.rate) == (22.0, 30.0)
    assert (row.assignor, row.assignor_usable) == (row.now, False)
    assert (row.layout.off_rack, row.layout.crossing) == (2, 4.0)
    assert [step.kind for step in row.steps] == [StepKind.MOVE_LEADERS]
    explained = explain_group(share, view_of(share, STATE.view), HostRacks()).explanation
    counts = {finding.reason: finding.count for finding in explained.findings}
    assert counts == {Reason.NOT_OPTIMAL: 5, Reason.UNREAD: 1}
    assert (explained.unknown, explained.unread, explained.unknown_at_best) == (0, 1, 1)
    (fit,) = explained.findings[0].remedies
    assert (fit.kind, fit.off_rack_after) == (RemedyKind.FIT_LEADERS, 2)


def test_moving_offsets_without_members_are_unattributed() -> None:
    manual = group("manual", [], protocol_type="", state="Empty", protocol="")
    idle = group("idle", [], protocol_type="", state="Empty", protocol="")
    rates = ReadRates(committed={"manual": {TopicPartition("t", 3): 2e6}}, measured_seconds=10.0)
    report = audit(reading(STATE, manual, idle, group("reads", [(0,)])), rates)
    rows = {row.group: row for row in report.groups}
    manual_now = now(rows["manual"])
    assert (manual_now.off_rack, manual_now.crossing, manual_now.unknown) == (0, 0.0, 2e6)
    assert (rows["manual"].partitions, rows["manual"].unknown) == (1, 1)
    assert "(assign())" in (rows["manual"].reason or "")
    assert report.totals.now.unknown == 2e6
    assert rows["idle"].now is None
    assert "start its consumers" not in (rows["idle"].reason or "")


def test_missing_topic_and_cluster_without_topics() -> None:
    lost = group("lost", [(0, 1), (2, 3)])
    empty = ClusterState("c", ClusterView(STATE.view.brokers, {}, {}))
    (row,) = audit(reading(empty, lost)).groups
    assert (row.missing_topics, row.partitions, row.steps) == (("t",), 0, ())
    assert audit(reading(empty)).groups == ()


def test_what_co_partitioning_costs_and_the_option() -> None:
    rows = [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
    state = cluster_state({"t": rows, "u": [rows[1], rows[2], rows[0]]}, ("a", "b", "c"))
    ranged = group("g", [(0,), (1,), (2,)], protocol="leader-rack-aware-range")
    members = tuple(
        replace(each, topics=frozenset("tu"), assignment={"t": (n,), "u": (n,)})
        for n, each in enumerate(ranged.members)
    )
    for protocol, expected in (("leader-rack-aware-range", 3), ("range", None)):
        (row,) = audit(reading(state, replace(ranged, members=members, protocol=protocol))).groups
        texts = [step.text for step in row.steps if step.kind is StepKind.SEPARATE_TOPICS]
        assert now(row).off_rack == 3
        assert [text.split(":")[0] for text in texts] == (
            [f"co-partitioning costs {expected} partitions"] if expected else []
        )


def test_brokers_and_members_without_racks() -> None:
    state = cluster_state({"t": [(0, 1)] * 6}, (None, None))
    (row,) = audit(reading(state, group("g", [(0, 1), (2, 3), (4, 5)]))).groups
    assert (row.unknown, row.partitions, now(row).off_rack) == (6, 6, 0)
    assert [step.kind for step in row.steps] == [StepKind.SET_BROKER_RACK]
    shares = group("g", [(0, 1), (2, 3), (4, 5)])
    rackless = replace(shares, members=tuple(replace(each, rack=None) for each in shares.members))
    rates = ReadRates(written=dict.fromkeys(STATE.view.replicas, 5.0))
    report = audit(reading(STATE, rackless), rates)
    (row,) = report.groups
    assert (row.rackless_members, now(row).off_rack, now(row).cost) == (3, 0, 0)
    assert (row.unknown, now(row).unknown_partitions, row.local) == (6, 6, 0)
    assert (now(row).crossing, now(row).unknown) == (0, 30)
    kinds = [StepKind.SET_CLIENT_RACK, StepKind.MAP_HOSTS]
    assert [step.kind for step in row.steps] == kinds
    assert [step.kind for step in report.steps][:2] == kinds
    assert report.steps[0].text.startswith("1 group sends no rack")
    assert report.steps[1].lines == ("--mapping 10.0.0.1=RACK",)
    (mapped,) = audit(reading(STATE, rackless), rates, mapping="10.0.0.0/8=b").groups
    assert (mapped.rackless_members, now(mapped).off_rack) == (0, 5)
    assert all("--mapping 10.0.0.0/8=b" in step.lines[0] for step in mapped.steps)


def test_writes_with_all_steps_have_the_leaders_of_the_layout() -> None:
    """All members are in a: the layout leaves b and c, which write two thirds, without leaders."""
    shares = group("g", [(0, 1), (2, 3), (4, 5)])
    in_a = replace(shares, members=tuple(replace(each, rack="a") for each in shares.members))
    rates = ReadRates(written=dict.fromkeys(STATE.view.replicas, 1e6))
    report = audit(reading(STATE, in_a), rates)
    assert report.totals.layout is not None
    assert report.totals.layout.off_rack == 0
    assert report.writes is not None
    assert report.writes_after is not None
    month = 730 * 3600 / 1000 * 0.02
    assert report.writes.rack_aware_cost == 0.0
    assert report.writes_after.rack_aware_cost == pytest.approx(4 * month)
    assert [each.kind for each in report.steps] == [StepKind.USE_PARTITIONER]
    # 2 MB/s fewer are read across racks, and 4 of 4 MB/s are written across as now.
    text = dict(write_lines(report, Currency("$")))["Rack-aware writes"]
    assert text == "save $210 a month, and with all steps $105"
    # All that is written comes from a.
    report = audit(reading(STATE, in_a), rates, writers=parse_writers(["a=1"]))
    assert report.writes is not None
    assert (report.writes.crossing, report.writes.rack_aware_cost) == (2e6, 0.0)
    assert "Producers are assumed a 1, and to write without keys." in report.rates.assumptions


def test_groups_share_topics_through_other_groups() -> None:
    topics = {"a": ["x"], "b": ["y", "z"], "c": ["x", "y"], "d": ["w"], "e": [], "f": ["w"]}
    assert groups_sharing_topics(topics) == [("a", "b", "c"), ("d", "f"), ("e",)]
    assert groups_sharing_topics({}) == []


def test_the_figures_now_alone() -> None:
    far = group("far", [(4, 5), (0, 1), (2, 3)])
    report = audit(reading(STATE, far), best=False)
    (row,) = report.groups
    assert (now(row).off_rack, row.assignor, row.layout, row.steps) == (6, None, None, ())
    assert report.findings == ()


SELECTORS = dict.fromkeys(range(6), RACK_AWARE_SELECTOR)


def audit_with_selectors(*groups: Group, mapping: str | None = None, **fields: Any) -> AuditReport:
    """Return an audit of brokers with a replica selector; 1 MB/s is written to each partition."""
    read = replace(reading(STATE, *groups), **{"selectors": SELECTORS, **fields})
    rates = ReadRates(written=dict.fromkeys(STATE.view.replicas, 1e6))
    return audit(read, rates, mapping=mapping)


def test_members_that_send_a_rack_read_from_followers() -> None:
    shares = [(4, 5), (0, 1), (2, 3)]
    far, new = group("far", shares), group("new", shares, type="consumer", protocol="uniform")
    own = group("own", shares, protocol="leader-rack-aware-range")
    report = audit_with_selectors(far, new, own)
    rows = {row.group: row for row in report.groups}
    for name in ("far", "new"):
        row = rows[name]
        assert (row.local, now(row).off_rack, now(row).crossing, now(row).cost) == (6, 0, 0, 0)
        assert (row.findings, row.steps, row.layout) == ((), (), row.assignor)
    assert (now(rows["own"]).off_rack, now(rows["own"]).crossing) == (6, 6e6)
    # The leaders move for the group that reads from them, and for no other.
    assert rows["own"].steps[-1].lines[0] == "rackward leaders plan own -o leaders.json"
    assert report.replica_selectors == (SelectorBrokers(RACK_AWARE_SELECTOR, 6),)
    # kafka-go's rack-affinity sends a rack when it joins, and none when it fetches.
    (kafka_go,) = audit_with_selectors(group("go", shares, protocol="rack-affinity")).groups
    assert (now(kafka_go).off_rack, now(kafka_go).crossing) == (6, 6e6)


def test_a_follower_that_is_not_in_sync_is_not_read() -> None:
    far = group("far", [(4, 5), (0, 1), (2, 3)])
    behind = {**STATE.in_sync, TopicPartition("t", 0): (0, 4)}
    report = audit_with_selectors(far, state=replace(STATE, in_sync=behind))
    (row,) = report.groups
    assert (now(row).off_rack, now(row).crossing) == (1, 1e6)
    assert [(each.count, each.rack) for each in row.findings] == [(1, "a")]


def test_members_without_a_rack_read_unknown_replicas() -> None:
    shares = group("g", [(4, 5), (0, 1), (2, 3)])
    silent = replace(
        shares,
        members=tuple(
            replace(each, rack=None, client_id="kafka-python-3.0.12", host=f"/10.0.{n}.1")
            for n, each in enumerate(shares.members)
        ),
    )
    (row,) = audit_with_selectors(silent, mapping="10.0.0.1=a,10.0.1.1=b,10.0.2.1=c").groups
    assert (now(row).off_rack, now(row).crossing, now(row).unknown, row.unknown) == (0, 0, 6e6, 6)
    assert [each.reason for each in row.findings] == [Reason.REPLICA_UNKNOWN]
    assert [(step.kind, step.lines) for step in row.steps] == [
        (StepKind.SET_CLIENT_RACK, ('client_rack="a"',))
    ]


def test_unknown_replica_selectors_count_as_none() -> None:
    far = group("far", [(4, 5), (0, 1), (2, 3)])
    for selectors in ({}, dict.fromkeys(range(6), "com.example.Selector")):
        (row,) = audit_with_selectors(far, selectors=selectors).groups
        assert now(row).off_rack == 6
