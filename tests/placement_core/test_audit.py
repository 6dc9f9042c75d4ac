"""Audit of a clean layout, and of the same layout with one fault at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from placement_core import Broker, ClusterView, InvalidOptionError, TopicPartition
from placement_core.audit import Audit, Finding, Kind, LostRack, Severity, audit, format_partitions
from placement_core.placers.under_replicated import ReplicationTarget
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


def lost(result: Audit) -> dict[str, tuple[int, int]]:
    return {
        each.rack: (each.offline, each.below_min_in_sync) for each in result.figures.lost_with_rack
    }


def kinds(result: Audit) -> set[Kind]:
    return {finding.kind for finding in result.findings}


def test_a_clean_layout_has_figures_and_no_findings() -> None:
    result = audit(clean(), min_isr=2)
    assert result.findings == ()
    assert result.worst is None
    figures = result.figures
    assert (figures.partitions, figures.replicas) == (6, 18)
    assert {(s.replicas, s.leaders, s.preferred) for s in result.brokers} == {(3, 1, 1)}
    assert {(s.brokers, s.replicas, s.leaders) for s in result.racks} == {(2, 6, 2)}
    assert figures.against_rack_rules == figures.offline == figures.under_replicated == 0
    assert figures.lost_with_rack == tuple(LostRack(rack, 0, 0) for rack in "abc")


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
    assert result.findings[0].partitions == (T[0],)
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
    assert loss.partitions == (T[0],)
    assert lost(result) == {"a": (0, 1), "b": (0, 0), "c": (0, 0)}


def test_all_replicas_in_one_rack() -> None:
    result = audit(changed({0: (0, 1)}), tolerance=1)
    assert kinds(result) == {Kind.RACK_RULE, Kind.RACK_LOSS_OFFLINE}
    assert lost(result) == {"a": (1, 0), "b": (0, 0), "c": (0, 0)}


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


@pytest.mark.parametrize(
    ("rows", "subject", "remedy"),
    [
        ([(0,), (1,)] * 4, "rack a", "leave it if the consumers are there, else plan a leader"),
        ([(0, 2)] * 4 + [(2, 0)] * 4, "broker 0", "plan a leader"),
    ],
)
def test_uneven_leaders_need_a_leader_layout(
    rows: list[tuple[int, ...]], subject: str, remedy: str
) -> None:
    brokers = (Broker(0, "a"), Broker(1, "a"), Broker(2, "b"), Broker(3, "b"))
    replicas = {TopicPartition("t", n): row for n, row in enumerate(rows)}
    [message] = [
        each.message
        for each in audit(ClusterView(brokers, replicas)).findings
        if (each.kind, each.subject) == (Kind.UNEVEN_LEADERS, subject)
    ]
    assert message.endswith(f": {remedy} layout")


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


def test_rack_rules_bound_the_fair_share_of_a_rack() -> None:
    """A large rack gets one replica of each partition at most, a small one at least."""

    def message_about(rack: str, sizes: tuple[int, ...], rows: Sequence[tuple[int, ...]]) -> str:
        racks = "".join(name * size for name, size in zip("abc", sizes, strict=True))
        brokers = tuple(Broker(n, name) for n, name in enumerate(racks))
        view = ClusterView(brokers, {TopicPartition("t", n): r for n, r in enumerate(rows)})
        [message] = [
            each.message
            for each in audit(view).findings
            if each.kind is Kind.UNEVEN_REPLICAS and each.subject == f"rack {rack}"
        ]
        return message.split(" that ")[0]

    few_in_c = [(0, 1)] * 6 + [(0, 2), (1, 3), (0, 4), (1, 5)]
    assert message_about("c", (1, 1, 4), few_in_c) == "4 replicas instead of 10"
    many_in_a = [(0, 1, 2 + n % 6, 8 + n % 6) for n in range(10)]
    assert message_about("a", (2, 6, 6), many_in_a) == "20 replicas instead of 10"


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
    assert {rack: offline for rack, (offline, _) in lost(result).items()} == {
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


def test_partitions_below_min_isr_are_not_lost_with_a_rack() -> None:
    view = clean()
    in_sync = {p: row[:2] if p == T[0] else row for p, row in view.replicas.items()}
    result = audit(view, in_sync=in_sync, min_isr=3)
    assert result.figures.below_min_in_sync == 1
    assert lost(result) == dict.fromkeys("abc", (0, 5))


def only(result: Audit, kind: Kind) -> Finding:
    [finding] = [finding for finding in result.findings if finding.kind is kind]
    return finding


@pytest.mark.parametrize(
    ("count", "total", "expected"),
    [
        (1, None, "partition 0"),
        (1, 1, "partition 0"),
        (2, None, "2 partitions (0, 1)"),
        (2, 2, "all 2 partitions"),
        (5, 6, "5 partitions (0, 1, 2, 3, 4)"),
        (6, 7, "6 partitions (0, 1, 2, 3, 4, ...)"),
    ],
)
def test_messages_name_the_first_five_partitions(
    count: int, total: int | None, expected: str
) -> None:
    assert format_partitions(T[:count], total) == expected


@pytest.mark.parametrize(("topics", "more"), [(3, ""), (5, " and partitions of 2 more topics")])
def test_the_loss_of_a_rack_names_three_topics(topics: int, more: str) -> None:
    rows = {TopicPartition(f"t{n}", 0): (0,) for n in range(topics)}
    view = ClusterView((Broker(0, "a"), Broker(1, "b")), rows)
    message = only(audit(view), Kind.RACK_LOSS_OFFLINE).message
    named = ", ".join(f"partition 0 of t{n}" for n in range(3))
    assert message.startswith(f"its loss leaves {named}{more} without any replica: spread")


def test_min_insync_replicas_is_exact_and_1_if_unknown() -> None:
    view = replace(clean(), leaders=None)
    below = {Kind.BELOW_MIN_IN_SYNC}
    assert not kinds(audit(view, min_isr=3)) & below
    result = audit(view, min_isr=4)
    finding = only(result, Kind.BELOW_MIN_IN_SYNC)
    assert {topic for topic, _ in finding.partitions} == {finding.subject}
    remedy = "lower min.insync.replicas, or raise the replication factor"
    assert finding.message.endswith(f"fail: {remedy}")
    assert not kinds(audit(view, min_isr={"u": 4})) & below
    one = {p: row[:1] for p, row in view.replicas.items()}
    assert not kinds(audit(view, in_sync=one, min_isr={"u": 4})) & below


def test_a_preferred_leader_that_is_down_is_named() -> None:
    result = audit(changed({0: (9, 2, 4)}, leaders={0: 2}), tolerance=1)
    message = only(result, Kind.NOT_PREFERRED).message
    assert message.endswith("broker 9 is down: start it again, or reassign")
    result = audit(changed(leaders={0: 2}), tolerance=1)
    assert only(result, Kind.NOT_PREFERRED).message.endswith("elect preferred leaders")


def test_leaders_of_unknown_partitions_are_not_judged() -> None:
    view = clean()
    leaders = {**view.known_leaders, TopicPartition("u", 0): 3}
    assert audit(replace(view, leaders=leaders)).findings == ()


@pytest.mark.parametrize(("tolerance", "found"), [(0.24, True), (0.25, False)])
def test_a_broker_off_by_exactly_the_tolerance_is_not_uneven(tolerance: float, found: bool) -> None:
    """Brokers 0 and 1 have 3 and 5 replicas instead of 4."""
    rows = {TopicPartition("t", n): (0 if n < 3 else 1,) for n in range(8)}
    view = ClusterView((Broker(0, "a"), Broker(1, "a")), rows)
    result = audit(view, tolerance=tolerance)
    assert (Kind.UNEVEN_REPLICAS in kinds(result)) == found


def test_whole_numbers_that_cannot_be_equal_are_not_uneven() -> None:
    """Broker 0 has 2 and broker 1 has 1 instead of 1.5: more than the tolerance, less than one."""
    rows = {TopicPartition("t", n): (n % 2,) for n in range(3)}
    view = ClusterView((Broker(0, "a"), Broker(1, "a")), rows)
    assert kinds(audit(view, tolerance=0)) == {Kind.ONE_RACK}


def test_a_rack_is_uneven_by_one_replica_per_broker() -> None:
    """Rack a has two brokers: of 8 replicas, 3 are one too few, but not one per broker."""
    brokers = (Broker(0, "a"), Broker(1, "a"), Broker(2, "b"), Broker(3, "b"))

    def uneven(holders: tuple[int, ...]) -> list[str]:
        rows = {TopicPartition("t", n): (holder,) for n, holder in enumerate(holders)}
        findings = audit(ClusterView(brokers, rows)).findings
        return [f.message for f in findings if f.kind is Kind.UNEVEN_REPLICAS]

    assert not [text for text in uneven((0, 1, 0, 2, 3, 2, 3, 2)) if "a rack of its size" in text]
    message = uneven((0, 1, 2, 3, 2, 3, 2, 3))[0]
    assert message == (
        "2 replicas instead of 4 that a rack of its size has in an even layout: plan a reassignment"
    )


def test_more_replicas_than_brokers_are_not_judged_by_rack_rules() -> None:
    view = ClusterView((Broker(0, "a"), Broker(1, "b")), {T[0]: (0, 8, 9)})
    assert audit(view).figures.against_rack_rules == 0


def test_one_broker_is_not_one_rack() -> None:
    assert audit(ClusterView((Broker(0, "a"),), {T[0]: (0,)})).findings == ()


def test_counts_per_rack_end_with_brokers_without_a_rack() -> None:
    brokers = (Broker(0), Broker(1, "b"), Broker(2, "a"))
    view = ClusterView(brokers, {T[0]: (0, 1), T[1]: (2, 1), T[2]: (9, 1)}, {T[0]: 1, T[1]: 2})
    result = audit(view)
    assert [each.rack for each in result.racks] == ["a", "b", None]
    assert [(it.brokers, it.replicas, it.leaders, it.preferred) for it in result.racks] == [
        (1, 1, 1, 1),
        (1, 3, 1, 0),
        (1, 1, 0, 1),
    ]
    assert result.figures.replicas == 6


@pytest.mark.parametrize(
    ("racks", "factor", "remedy"),
    [
        ("ab", 3, "2 live brokers in racks a, b, but 3 are needed: start 1 more, best in a rack"),
        ("aa", 4, "2 live brokers in rack a, but 4 are needed: start 2 more, best in a rack"),
        ("a", 3, "1 live broker in rack a, but 3 are needed: start 2 more, best in a rack"),
        ("  ", 3, "2 live brokers, but 3 are needed: start 1 more, best in a rack"),
        ("abc", 3, "there are enough brokers: check that rackward controller is running"),
    ],
)
def test_placeholders(racks: str, factor: int, remedy: str) -> None:
    brokers = tuple(Broker(n, rack.strip() or None) for n, rack in enumerate(racks))
    view = ClusterView(brokers, {T[0]: (0, -1, -2)})
    finding = only(audit(view, targets={T[0]: ReplicationTarget(factor)}), Kind.PLACEHOLDERS)
    assert (finding.severity, finding.subject) == (Severity.WARNING, "t")
    assert finding.partitions == (T[0],)
    missing = f"{factor - 1} replica{'s' if factor > 2 else ''}"
    assert finding.message.startswith(f"partition 0 with placeholders for {missing} each; {remedy}")


def test_only_partitions_that_lack_replicas_have_placeholders() -> None:
    """Broker 9 is down: its replica counts, unless it stood for a missing one from the start."""
    rows = {T[0]: (0, 1), T[1]: (0, -1), T[2]: (0, 9), T[3]: (1, 9), T[4]: (0, -1, -2)}
    view = ClusterView((Broker(0, "a"), Broker(1, "b")), rows)
    targets = {partition: ReplicationTarget(2) for partition in (T[0], T[1], T[2], T[5])}
    targets |= {T[3]: ReplicationTarget(2, frozenset({9})), T[4]: ReplicationTarget(3)}
    finding = only(audit(view, targets=targets), Kind.PLACEHOLDERS)
    assert finding.partitions == (T[1], T[3], T[4])
    assert finding.message.startswith(
        "3 partitions (1, 3, 4) with placeholders for up to 2 replicas each; 2 live brokers"
    )
    del targets[T[4]]
    finding = only(audit(view, targets=targets), Kind.PLACEHOLDERS)
    assert "with placeholders for 1 replica each; there are enough brokers" in finding.message


def test_racks_a_and_slash_a_are_one_rack() -> None:
    names = ("a", "/a", "b", "/b")
    view = ClusterView(
        tuple(Broker(number, rack) for number, rack in enumerate(names)),
        {TopicPartition("t", number): (number, (number + 2) % 4) for number in range(4)},
    )
    result = audit(view)
    assert {each.rack: each.brokers for each in result.racks} == {"a": 2, "b": 2}
    assert set(lost(result)) == {"a", "b"}
    paths = ("a", "/a/r1", "/b/r1", "/b/r2")
    nested = replace(view, brokers=tuple(Broker(n, rack) for n, rack in enumerate(paths)))
    assert set(lost(audit(nested))) == {"a", "/a/r1", "/b", "/b/r1", "/b/r2"}
