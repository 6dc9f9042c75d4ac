"""Audit of a clean layout, of the same layout with one fault at a time, and of planned layouts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from placement_core import Broker, ClusterView, InvalidOptionError, TopicPartition
from placement_core.audit import Audit, Finding, Kind, LostRack, Severity, audit, format_partitions
from placement_core.placers.under_replicated import ReplicationTarget
from placement_core.reassignment import plan_reassignment
from tests.support.placement import cluster
from tests.support.reassignments import paths_of, random_case, satisfies_rack_rules

T = [TopicPartition("t", n) for n in range(6)]
ROWS = ((0, 2, 4), (2, 4, 0), (4, 0, 2), (1, 3, 5), (3, 5, 1), (5, 1, 3))


def with_leaders(view: ClusterView, leaders: dict[int, int | None] | None = None) -> ClusterView:
    """Return the view with ``leaders``, by default the preferred ones; None is no leader."""
    leader_of: dict[TopicPartition, int | None] = {p: row[0] for p, row in view.replicas.items()}
    leader_of |= {T[n]: leader for n, leader in (leaders or {}).items()}
    return replace(view, leaders={p: b for p, b in leader_of.items() if b is not None})


def changed(
    replicas: dict[int, tuple[int, ...]] | None = None, leaders: dict[int, int | None] | None = None
) -> ClusterView:
    """Return six brokers in three racks, six partitions of RF 3: even but for these changes."""
    rows = [(replicas or {}).get(n, row) for n, row in enumerate(ROWS)]
    return with_leaders(cluster("aabbcc", t=tuple(rows)), leaders)


def in_sync(count: int) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the in-sync replicas if partition 0 has only its first ones in sync."""
    return {p: row[:count] if p == T[0] else row for p, row in changed().replicas.items()}


def lost(result: Audit) -> dict[str, tuple[int, int]]:
    return {
        each.rack: (each.offline, each.below_min_in_sync) for each in result.figures.lost_with_rack
    }


def kinds(result: Audit) -> set[Kind]:
    return {finding.kind for finding in result.findings}


def only(result: Audit, kind: Kind) -> Finding:
    [finding] = [finding for finding in result.findings if finding.kind is kind]
    return finding


def test_a_clean_layout_has_figures_and_no_findings() -> None:
    result = audit(changed(), min_isr=2)
    assert (result.findings, result.worst) == ((), None)
    figures = result.figures
    assert (figures.partitions, figures.replicas) == (6, 18)
    assert {(s.replicas, s.leaders, s.preferred) for s in result.brokers} == {(3, 1, 1)}
    assert {(s.brokers, s.replicas, s.leaders) for s in result.racks} == {(2, 6, 2)}
    assert figures.against_rack_rules == figures.offline == figures.under_replicated == 0
    assert figures.lost_with_rack == tuple(LostRack(rack, 0, 0) for rack in "abc")


def described(result: Audit) -> list[str]:
    return [f"{f.severity.value}, {f.subject}: {f.message}" for f in result.findings]


ALL = "6 partitions (0, 1, 2, 3, 4, ...)"
FAULTS: dict[str, tuple[ClusterView, dict[str, Any], list[str]]] = {
    "no leader": (
        changed(leaders={3: None}),
        {},
        ["critical, t: partition 3 without a leader: start brokers 1, 3, 5 again, at least one"],
    ),
    "no leader at all": (replace(changed(), leaders={}), {}, [f"critical, t: {ALL} without a le"]),
    "unknown leaders": (replace(changed(), leaders=None), {}, []),
    "a leader of an unknown partition": (
        replace(changed(), leaders={**changed().known_leaders, TopicPartition("u", 0): 3}),
        {},
        [],
    ),
    "not in sync": (
        changed(),
        {"in_sync": in_sync(2)},
        [
            "warning, t: partition 0 with replicas that are not in sync: check why broker 4 does "
            "not replicate"
        ],
    ),
    "below min.insync.replicas": (
        changed(),
        {"in_sync": in_sync(2), "min_isr": {"t": 3, "u": 1}},
        [
            "critical, t: partition 0 with fewer in-sync replicas than min.insync.replicas=3, so "
            "that writes with acks=all fail: check why broker 4 does not replicate",
            "warning, t: partition 0 with replicas that are not in sync",
            *(
                f"warning, rack {rack}: its loss leaves 5 partitions (1, 2, 3, 4, 5) of t with "
                "fewer than min.insync.replicas"
                for rack in "abc"
            ),
        ],
    ),
    "min.insync.replicas of another topic": (
        changed(),
        {"in_sync": in_sync(1), "min_isr": {"u": 4}},
        [
            "warning, t: partition 0 with replicas that are not in sync: check why brokers 2, 4",
            "warning, rack a: its loss leaves partition 0 of t without any replica",
        ],
    ),
    "min.insync.replicas above the factor": (
        changed(),
        {"min_isr": 4},
        [
            f"critical, t: {ALL} with fewer in-sync replicas than min.insync.replicas=4, so that "
            "writes with acks=all fail: lower min.insync.replicas, or raise the replication factor"
        ],
    ),
    "a missing broker": (
        changed({0: (0, 2, 9)}),
        {},
        ["warning, t: partition 0 with replicas that are not in sync: start broker 9 again, or re"],
    ),
    "two replicas in a rack": (
        changed({0: (0, 1, 4)}),
        {"min_isr": 2},
        [
            "warning, t: partition 0 not spread over racks as evenly as possible (0 is on brokers "
            "0 in a, 1 in a, 4 in c): plan a reassignment",
            "warning, rack a: its loss leaves partition 0 of t with fewer than min.insync.replicas",
        ],
    ),
    "all replicas in a rack": (
        changed({0: (0, 1)}),
        {},
        [
            "warning, t: partition 0 not spread",
            "warning, rack a: its loss leaves partition 0 of t without any replica: spread",
        ],
    ),
    # It is not lost with a rack once more.
    "no replica in sync": (
        changed(),
        {"in_sync": in_sync(0)},
        [
            "critical, t: partition 0 with fewer in-sync replicas than min.insync.replicas=1",
            "warning, t: partition 0 with replicas that are not in sync",
        ],
    ),
    "no leader and one replica": (
        changed(leaders={0: None}),
        {"in_sync": in_sync(1), "min_isr": 2},
        ["critical, t: partition 0 without a leader", "warning, t: partition 0 with replicas"],
    ),
    "other leaders": (
        changed(leaders={0: 2, 1: 0}),
        {},
        ["notice, t: 2 partitions (0, 1) not led by the preferred replica: elect preferred"],
    ),
    "a preferred leader that is down": (
        changed({0: (9, 2, 4)}, {0: 2}),
        {},
        [
            "warning, t: partition 0 with replicas",
            "notice, t: partition 0 not led by the preferred replica: broker 9 is down: start it",
        ],
    ),
    "a rack that is unknown": (
        replace(changed(), brokers=(*changed().brokers[:5], Broker(5))),
        {},
        ["warning, broker 5: broker 5 of 6 without broker.rack, others with"],
    ),
    "no racks": (changed().without_racks(), {}, ["notice, cluster: no broker has a rack, so"]),
    "one rack": (
        cluster("aa", t=((0,), (1,))),
        {},
        ["notice, cluster: all brokers are in one rack, so that rack rules have no effect"],
    ),
    "one broker": (cluster("a", t=((0,),)), {}, []),
    # Broker 0 has 2 and broker 1 has 1 instead of 1.5: more than the tolerance, less than one.
    "whole numbers that cannot be equal": (
        cluster("aa", t=((0,), (1,), (0,))),
        {"tolerance": 0},
        ["notice, cluster: all brokers are in one rack"],
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_has_its_findings(fault: str) -> None:
    view, options, expected = FAULTS[fault]
    result = audit(view, **{"tolerance": 2, **options})
    for found, start in zip(described(result), expected, strict=True):
        assert found.startswith(start)
    assert (result.worst.value if result.worst else "") == "".join(expected[:1]).partition(",")[0]
    count = {finding.kind: len(finding.partitions) for finding in result.findings}
    figures = result.figures
    for kind, figure in (
        (Kind.OFFLINE, figures.offline),
        (Kind.BELOW_MIN_IN_SYNC, figures.below_min_in_sync),
        (Kind.UNDER_REPLICATED, figures.under_replicated),
        (Kind.NOT_PREFERRED, figures.not_preferred),
        (Kind.RACK_RULE, figures.against_rack_rules or 0),
    ):
        assert figure == count.get(kind, 0)


def test_partitions_lost_with_a_rack() -> None:
    assert lost(audit(changed({0: (0, 1, 4)}), min_isr=2)) == {
        "a": (0, 1),
        "b": (0, 0),
        "c": (0, 0),
    }
    assert lost(audit(changed({0: (0, 1)}))) == {"a": (1, 0), "b": (0, 0), "c": (0, 0)}
    # A partition that is below min.insync.replicas already is not lost.
    assert lost(audit(changed(), in_sync=in_sync(2), min_isr=3)) == dict.fromkeys("abc", (0, 5))
    result = audit(cluster(("/x/1", "/x/2", "/y/1", "/y/2"), t=((0, 1), (0, 2))), tolerance=5)
    assert {rack: offline for rack, (offline, _) in lost(result).items()} == {
        "/x": 1, "/x/1": 0, "/x/2": 0, "/y": 0, "/y/1": 0, "/y/2": 0
    }  # fmt: skip
    assert kinds(result) == {Kind.RACK_RULE, Kind.RACK_LOSS_OFFLINE}


@pytest.mark.parametrize(("topics", "more"), [(3, ""), (5, " and partitions of 2 more topics")])
def test_the_loss_of_a_rack_names_three_topics(topics: int, more: str) -> None:
    view = cluster("ab", **{f"t{n}": ((0,),) for n in range(topics)})
    message = only(audit(view), Kind.RACK_LOSS_OFFLINE).message
    named = ", ".join(f"partition 0 of t{n}" for n in range(3))
    assert message.startswith(f"its loss leaves {named}{more} without any replica: spread")


ON_AVERAGE = "that the brokers of rack a have on average"
OF_ITS_SIZE = "that a rack of its size has in an even layout"
UNEVEN = [
    (
        changed({0: (1, 2, 4)}),
        f"warning, broker 1: 4 replicas instead of 3 {ON_AVERAGE}: plan a re",
    ),
    (
        changed({0: (1, 2, 4)}),
        f"warning, broker 0: 2 replicas instead of 3 {ON_AVERAGE}: plan a re",
    ),
    (
        cluster("aabb", t=((0, 2),) * 4 + ((2, 0),) * 4),
        f"warning, broker 0: 4 leaders instead of 2 {ON_AVERAGE}: plan a leader layout",
    ),
    (
        cluster("aabb", t=((0,), (1,)) * 4),
        f"notice, rack a: 8 leaders instead of 4 {OF_ITS_SIZE}: leave it if the consumers are "
        "there, else plan a leader layout",
    ),
    (
        replace(changed(), brokers=(*changed().brokers, Broker(6, "a"))),
        f"warning, broker 6: 0 replicas instead of 2 {ON_AVERAGE}",
    ),
    (
        replace(changed(), brokers=(*changed().brokers, Broker(6, "d"), Broker(7, "d"))),
        f"warning, rack d: 0 replicas instead of 4 {OF_ITS_SIZE}",
    ),
    (
        cluster("aabb", t=tuple((broker,) for broker in (0, 1, 2, 3, 2, 3, 2, 3))),
        f"warning, rack a: 2 replicas instead of 4 {OF_ITS_SIZE}: plan a reassignment",
    ),
    # A large rack gets one replica of each partition at most, a small one at least.
    (
        cluster("abcccc", t=((0, 1),) * 6 + ((0, 2), (1, 3), (0, 4), (1, 5))),
        "warning, rack c: 4 replicas instead of 10",
    ),
    (
        cluster("aabbbbbbcccccc", t=tuple((0, 1, 2 + n % 6, 8 + n % 6) for n in range(10))),
        "warning, rack a: 20 replicas instead of 10",
    ),
]


@pytest.mark.parametrize(("view", "expected"), UNEVEN)
def test_uneven_loads(view: ClusterView, expected: str) -> None:
    assert any(found.startswith(expected) for found in described(audit(view)))


def test_a_small_rack_that_must_carry_more_is_not_uneven() -> None:
    rows = [(n % 2, 2 + n % 4) if n % 3 else (2 + n % 4, n % 2) for n in range(12)]
    view = cluster("abcccc", t=tuple(rows))
    assert Kind.UNEVEN_REPLICAS not in kinds(audit(view))
    assert plan_reassignment(view).copies == 0


def test_a_rack_that_is_off_by_less_than_one_per_broker_is_not_uneven() -> None:
    view = cluster("aabb", t=tuple((broker,) for broker in (0, 1, 0, 2, 3, 2, 3, 2)))
    assert not [text for text in described(audit(view)) if "replicas instead of 4" in text]


@pytest.mark.parametrize(("tolerance", "found"), [(0.24, True), (0.25, False)])
def test_a_broker_off_by_exactly_the_tolerance_is_not_uneven(tolerance: float, found: bool) -> None:
    """Brokers 0 and 1 have 3 and 5 replicas instead of 4."""
    view = cluster("aa", t=((0,),) * 3 + ((1,),) * 5)
    assert (Kind.UNEVEN_REPLICAS in kinds(audit(view, tolerance=tolerance))) == found


def test_rack_rules_are_not_judged_without_racks_or_brokers() -> None:
    assert audit(cluster("ab", t=((0, 8, 9),))).figures.against_rack_rules == 0
    assert audit(cluster(["a", None], t=((0, 1),))).figures.against_rack_rules is None


@pytest.mark.parametrize("view", [ClusterView(()), ClusterView((Broker(0),)), changed()])
def test_findings_are_ordered_and_every_message_is_one_line(view: ClusterView) -> None:
    result = audit(view, min_isr=5)
    order = [list(Severity).index(f.severity) for f in result.findings]
    assert order == sorted(order)
    assert all("\n" not in f.message for f in result.findings)


def test_invalid_options_are_rejected() -> None:
    with pytest.raises(InvalidOptionError, match="tolerance is -1"):
        audit(changed(), tolerance=-1)
    with pytest.raises(InvalidOptionError, match=r"min.insync.replicas of t is 0"):
        audit(changed(), min_isr=0)


@pytest.mark.parametrize(
    ("count", "total", "expected"),
    [
        (1, 1, "partition 0"),
        (2, 2, "all 2 partitions"),
        (5, 6, "5 partitions (0, 1, 2, 3, 4)"),
        (6, None, "6 partitions (0, 1, 2, 3, 4, ...)"),
    ],
)
def test_messages_name_the_first_five_partitions(
    count: int, total: int | None, expected: str
) -> None:
    assert format_partitions(T[:count], total) == expected


def test_counts_per_rack_end_with_brokers_without_a_rack() -> None:
    view = cluster([None, "b", "a"], t=((0, 1), (2, 1), (9, 1)))
    result = audit(with_leaders(view, {0: 1, 2: None}))
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
        ("a", 3, "1 live broker in rack a, but 3 are needed: start 2 more, best in a rack"),
        ("  ", 3, "2 live brokers, but 3 are needed: start 1 more, best in a rack"),
        ("abc", 2, "there are enough brokers: check that rackward controller is running"),
    ],
)
def test_placeholders(racks: str, factor: int, remedy: str) -> None:
    view = cluster([rack.strip() or None for rack in racks], t=((0, -1, -2),))
    finding = only(audit(view, targets={T[0]: ReplicationTarget(factor)}), Kind.PLACEHOLDERS)
    assert (finding.severity, finding.subject) == (Severity.WARNING, "t")
    assert finding.partitions == (T[0],)
    missing = f"{factor - 1} replica{'s' if factor > 2 else ''}"
    assert finding.message.startswith(f"partition 0 with placeholders for {missing} each; {remedy}")


def test_only_partitions_that_lack_replicas_have_placeholders() -> None:
    """Broker 9 is down: its replica counts, unless it stood for a missing one from the start."""
    view = cluster("ab", t=((0, 1), (0, -1), (0, 9), (1, 9), (0, -1, -2)))
    targets = {partition: ReplicationTarget(2) for partition in (T[0], T[1], T[2], T[5])}
    targets |= {T[3]: ReplicationTarget(2, frozenset({9})), T[4]: ReplicationTarget(3)}
    finding = only(audit(view, targets=targets), Kind.PLACEHOLDERS)
    assert finding.partitions == (T[1], T[3], T[4])
    assert finding.message.startswith(
        "3 partitions (1, 3, 4) with placeholders for up to 2 replicas each; 2 live brokers"
    )


def test_racks_a_and_slash_a_are_one_rack() -> None:
    result = audit(cluster(("a", "/a", "b", "/b"), t=tuple((n, (n + 2) % 4) for n in range(4))))
    assert {each.rack: each.brokers for each in result.racks} == {"a": 2, "b": 2}
    assert set(lost(result)) == {"a", "b"}
    nested = cluster(("a", "/a/r1", "/b/r1", "/b/r2"))
    assert set(lost(audit(nested))) == {"a", "/a/r1", "/b", "/b/r1", "/b/r2"}


def violating(result: Audit) -> Collection[TopicPartition]:
    return {p for f in result.findings if f.kind is Kind.RACK_RULE for p in f.partitions}


@pytest.mark.parametrize("block", range(5))
def test_random_layouts_and_plans_for_them(block: int) -> None:
    """Rack rules match their definition; a plan has no findings about what it repairs."""
    for seed in range(block * 40, block * 40 + 40):
        case = random_case(seed)
        result = audit(case.view)
        paths = paths_of(case.view.racks())
        for partition, row in case.view.replicas.items():
            if result.figures.against_rack_rules is None:
                assert partition not in violating(result)
            elif set(row) <= paths.keys():
                follows = satisfies_rack_rules(row, paths)
                assert follows == (partition not in violating(result)), f"seed {seed}"
        view = replace(
            case.view, brokers=tuple(b for b in case.view.brokers if b.id not in case.drain)
        )
        try:
            plan = plan_reassignment(view, replication_factor=case.replication_factor)
        except InvalidOptionError:
            continue
        after = audit(ClusterView(view.brokers, plan.target))
        assert not kinds(after) & {
            Kind.RACK_RULE,
            Kind.UNDER_REPLICATED,
            Kind.OFFLINE,
            Kind.UNEVEN_REPLICAS,
        }, f"seed {seed}: {after.findings}"
