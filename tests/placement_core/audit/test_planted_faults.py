"""Audit of a clean layout, and of the same layout with one fault at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_core import Broker, ClusterView, InvalidOptionError, TopicPartition
from placement_core.audit import Audit, Kind, Severity, audit
from placement_core.reassignment import plan_reassignment

T = [TopicPartition("t", n) for n in range(6)]


def clean() -> ClusterView:
    """Return six brokers in three racks, six partitions of RF 3: everything even."""
    brokers = tuple(Broker(n, "abc"[n // 2]) for n in range(6))
    rows = [(0, 2, 4), (2, 4, 0), (4, 0, 2), (1, 3, 5), (3, 5, 1), (5, 1, 3)]
    replicas = dict(zip(T, rows, strict=True))
    return ClusterView(brokers, replicas, {p: row[0] for p, row in replicas.items()})


def changed(
    replicas: dict[int, tuple[int, ...]] | None = None, leaders: dict[int, int | None] | None = None
) -> ClusterView:
    """Return the clean layout with some rows changed, led by ``leaders`` or the first replica."""
    view = clean()
    rows = {**view.replicas, **{T[n]: row for n, row in (replicas or {}).items()}}
    leader_of: dict[TopicPartition, int | None] = {p: row[0] for p, row in rows.items()}
    leader_of |= {T[n]: leader for n, leader in (leaders or {}).items()}
    return replace(
        view, replicas=rows, leaders={p: b for p, b in leader_of.items() if b is not None}
    )


def kinds(result: Audit) -> set[Kind]:
    return {finding.kind for finding in result.findings}


def test_a_clean_layout_has_figures_and_no_findings() -> None:
    result = audit(clean(), min_isr=2)
    assert result.findings == ()
    assert result.worst is None
    figures = result.figures
    assert (figures.partitions, figures.replicas) == (6, 18)
    assert {(s.replicas, s.leaders, s.preferred) for s in figures.brokers.values()} == {(3, 1, 1)}
    assert {(s.brokers, s.replicas, s.leaders) for s in figures.racks.values()} == {(2, 6, 2)}
    assert figures.against_rack_rules == figures.offline == figures.under_replicated == 0
    assert figures.lost_offline == {"a": 0, "b": 0, "c": 0}


def test_a_partition_without_a_leader() -> None:
    result = audit(changed(leaders={3: None}), tolerance=1)
    [finding] = result.findings
    assert (finding.severity, finding.kind, finding.subject) == (
        Severity.CRITICAL,
        Kind.OFFLINE,
        "t",
    )
    assert finding.partitions == (T[3],)
    assert "partition 3 without a leader: start brokers 1, 3, 5 again" in finding.message
    assert result.figures.offline == 1


def test_unknown_leaders_are_not_missing_leaders() -> None:
    unknown = audit(replace(clean(), leaders=None))
    assert (unknown.findings, unknown.figures.offline) == ((), 0)
    leaderless = audit(replace(clean(), leaders={}), tolerance=1)
    assert (kinds(leaderless), leaderless.figures.offline) == ({Kind.OFFLINE}, 6)


def test_replicas_that_are_not_in_sync() -> None:
    view = clean()
    in_sync = {p: row[:2] if p == T[0] else row for p, row in view.replicas.items()}
    result = audit(view, in_sync=in_sync, min_isr=1)
    assert kinds(result) == {Kind.UNDER_REPLICATED}
    assert "check why broker 4 does not replicate" in result.findings[0].message
    result = audit(view, in_sync=in_sync, min_isr={"t": 3})
    assert {Kind.BELOW_MIN_IN_SYNC, Kind.UNDER_REPLICATED} < kinds(result)
    assert result.worst is Severity.CRITICAL
    assert result.figures.below_min_in_sync == result.figures.under_replicated == 1


def test_replicas_on_a_missing_broker() -> None:
    result = audit(changed({0: (0, 2, 9)}), tolerance=1)
    assert kinds(result) == {Kind.UNDER_REPLICATED}
    assert "start broker 9 again, or reassign the replicas" in result.findings[0].message


def test_two_replicas_in_one_rack_and_the_loss_of_that_rack() -> None:
    result = audit(changed({0: (0, 1, 4)}), min_isr=2, tolerance=1)
    assert kinds(result) == {Kind.RACK_RULE, Kind.RACK_LOSS_BELOW_MIN_IN_SYNC}
    rule = next(f for f in result.findings if f.kind is Kind.RACK_RULE)
    assert "partition 0 not spread" in rule.message
    assert "0 is on brokers 0 in a, 1 in a, 4 in c" in rule.message
    loss = next(f for f in result.findings if f.kind is not Kind.RACK_RULE)
    assert loss.subject == "rack a"
    assert "leaves partition 0 of t with fewer than min.insync.replicas" in loss.message
    assert result.figures.lost_below_min_in_sync == {"a": 1, "b": 0, "c": 0}


def test_all_replicas_in_one_rack() -> None:
    result = audit(changed({0: (0, 1)}), tolerance=1)
    assert kinds(result) == {Kind.RACK_RULE, Kind.RACK_LOSS_OFFLINE}
    assert result.figures.lost_offline == {"a": 1, "b": 0, "c": 0}


def test_offline_partitions_are_not_counted_as_lost_with_a_rack() -> None:
    view = changed(leaders={0: None})
    in_sync = {p: (0,) if p == T[0] else row for p, row in view.replicas.items()}
    result = audit(view, in_sync=in_sync, min_isr=2, tolerance=1)
    assert kinds(result) == {Kind.OFFLINE, Kind.UNDER_REPLICATED}


def test_leaders_that_are_not_preferred() -> None:
    result = audit(changed(leaders={0: 2, 1: 0}), tolerance=2)
    [finding] = result.findings
    assert (finding.severity, finding.kind) == (Severity.NOTICE, Kind.NOT_PREFERRED)
    assert finding.partitions == (T[0], T[1])
    assert "2 partitions (0, 1) not led by the preferred replica" in finding.message


def test_uneven_brokers_within_a_rack() -> None:
    result = audit(changed({0: (1, 2, 4)}))
    assert {(f.kind, f.subject) for f in result.findings} == {
        (Kind.UNEVEN_REPLICAS, "broker 0"),
        (Kind.UNEVEN_REPLICAS, "broker 1"),
        (Kind.UNEVEN_LEADERS, "broker 0"),
        (Kind.UNEVEN_LEADERS, "broker 1"),
    }
    [message] = [
        finding.message
        for finding in result.findings
        if (finding.kind, finding.subject) == (Kind.UNEVEN_REPLICAS, "broker 1")
    ]
    assert message.startswith("4 replicas instead of 3 that the brokers of rack a have")


def test_uneven_leaders_of_racks_are_a_notice() -> None:
    result = audit(changed({2: (0, 2, 4), 5: (1, 3, 5)}))
    racks = [f for f in result.findings if f.subject.startswith("rack")]
    assert {(f.subject, f.severity) for f in racks} == {
        ("rack a", Severity.NOTICE),
        ("rack c", Severity.NOTICE),
    }


def test_a_new_broker_and_a_new_rack_are_uneven() -> None:
    view = clean()
    extended = replace(view, brokers=(*view.brokers, Broker(6, "a")))
    assert "broker 6" in {f.subject for f in audit(extended).findings}
    extended = replace(view, brokers=(*view.brokers, Broker(6, "d"), Broker(7, "d")))
    assert "rack d" in {f.subject for f in audit(extended).findings}


def test_a_small_rack_that_must_carry_more_is_not_uneven() -> None:
    brokers = (Broker(0, "a"), Broker(1, "b"), *(Broker(n, "c") for n in range(2, 6)))
    rows = [(n % 2, 2 + n % 4) if n % 3 else (2 + n % 4, n % 2) for n in range(12)]
    view = ClusterView(brokers, {TopicPartition("t", n): r for n, r in enumerate(rows)})
    result = audit(view)
    assert Kind.UNEVEN_REPLICAS not in kinds(result)
    assert plan_reassignment(view).copies == 0


def test_brokers_without_a_rack() -> None:
    view = clean()
    partly_known = replace(view, brokers=(*view.brokers[:5], Broker(5, None)))
    result = audit(partly_known)
    assert Kind.RACK_UNKNOWN in kinds(result)
    assert result.figures.against_rack_rules is None
    rackless = replace(view, brokers=tuple(Broker(n) for n in range(6)))
    assert kinds(audit(rackless)) == {Kind.ONE_RACK}
    single_rack = replace(view, brokers=tuple(Broker(n, "a") for n in range(6)))
    assert kinds(audit(single_rack)) == {Kind.ONE_RACK}


def test_rack_loss_is_counted_at_every_level() -> None:
    names = ("/x/1", "/x/2", "/y/1", "/y/2")
    brokers = tuple(Broker(n, name) for n, name in enumerate(names))
    view = ClusterView(brokers, {T[0]: (0, 1), T[1]: (0, 2)})
    result = audit(view, tolerance=5)
    assert result.figures.lost_offline == {
        "/x": 1, "/x/1": 0, "/x/2": 0, "/y": 0, "/y/1": 0, "/y/2": 0
    }  # fmt: skip
    assert kinds(result) == {Kind.RACK_RULE, Kind.RACK_LOSS_OFFLINE}


@pytest.mark.parametrize("view", [ClusterView(()), ClusterView((Broker(0),)), clean()])
def test_findings_are_ordered_and_every_message_is_one_line(view: ClusterView) -> None:
    result = audit(view, min_isr=5)
    order = [list(Severity).index(f.severity) for f in result.findings]
    assert order == sorted(order)
    assert all("\n" not in f.message for f in result.findings)


def test_invalid_options_are_rejected() -> None:
    with pytest.raises(InvalidOptionError, match="tolerance is -1"):
        audit(clean(), tolerance=-1)
    with pytest.raises(InvalidOptionError, match=r"min.insync.replicas of t is 0"):
        audit(clean(), min_isr=0)


def test_partitions_below_min_isr_are_not_counted_as_lost_with_a_rack() -> None:
    view = clean()
    in_sync = {p: row[:2] if p == T[0] else row for p, row in view.replicas.items()}
    result = audit(view, in_sync=in_sync, min_isr=3)
    assert result.figures.below_min_in_sync == 1
    assert result.figures.lost_below_min_in_sync == {"a": 5, "b": 5, "c": 5}
