"""All checks of a layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

import numpy as np

from placement_core.audit.model import (
    Audit,
    Figures,
    Finding,
    Kind,
    Partitions,
    Severity,
    Share,
    Subject,
    brokers_named,
    by_topic,
    numbers,
)
from placement_core.audit.replication import (
    loss_findings,
    lost_with,
    placeholder_findings,
    places,
    state_findings,
    states,
)
from placement_core.cluster import ClusterView, TopicPartition
from placement_core.errors import InvalidOptionError
from placement_core.rack_bounds import RackTree
from placement_core.racks import parse_rack
from placement_core.under_replication import Wanted

# ---- Replicas against the rack rules, and leaders that are not the preferred ones.


def rack_findings(subject: Subject) -> Iterator[Finding]:
    """Findings about the racks themselves."""
    without = {broker for broker, rack in subject.racks.items() if parse_rack(rack) is None}
    if without and len(without) < len(subject.racks):
        yield Finding(
            Severity.WARNING,
            Kind.RACK_UNKNOWN,
            brokers_named(without),
            f"{brokers_named(without)} of {len(subject.racks)} without broker.rack, others with, "
            "so that replicas cannot be spread over racks: set broker.rack everywhere",
        )
    known = {parse_rack(rack) for rack in subject.racks.values()}
    if len(subject.racks) > 1 and len(known) == 1:
        named = "no broker says its rack" if None in known else "all brokers stand in one rack"
        yield Finding(
            Severity.NOTICE,
            Kind.ONE_RACK,
            "cluster",
            f"{named}, so that rack rules ask for nothing: set broker.rack, if there are several",
        )


def rack_tree(subject: Subject) -> tuple[RackTree, dict[int, int]] | None:
    """The tree of racks and each broker's place in it; None unless all brokers have a rack."""
    paths = {broker: parse_rack(rack) for broker, rack in sorted(subject.racks.items())}
    known = [path for path in paths.values() if path is not None]
    if not known or len(known) < len(paths):
        return None
    return RackTree.of(known), {broker: place for place, broker in enumerate(paths)}


def against_rules(subject: Subject) -> Partitions | None:
    """Partitions whose replicas on known brokers could not be part of a lawful set; or None.

    With all replicas on known brokers, that is: whose set breaks the rules. More replicas
    than brokers cannot be judged and are passed over.
    """
    found = rack_tree(subject)
    if found is None:
        return None
    tree, place = found
    verdicts: dict[tuple[int, ...], bool] = {}
    broken = []
    for partition, replicas in subject.view.replicas.items():
        racks = sorted(int(tree.leaf[place[broker]]) for broker in replicas if broker in place)
        key = (len(replicas), *racks)
        if key not in verdicts:
            verdicts[key] = _lawful(tree, racks, len(replicas))
        if not verdicts[key]:
            broken.append(partition)
    return broken


def _lawful(tree: RackTree, racks: list[int], replicas: int) -> bool:
    if replicas > len(tree.leaf):
        return True
    least, most = tree.shares(replicas)
    counts = np.bincount(tree.nodes[racks].reshape(-1), minlength=len(least))[None, :]
    factor = np.array([replicas])
    return bool(tree.extendable(counts, least[None, :], most[None, :], factor)[0])


def rule_findings(subject: Subject, broken: Partitions) -> Iterator[Finding]:
    """Findings by topic about replicas that are not spread over racks."""
    racks = subject.racks
    for topic, found in by_topic(broken).items():
        replicas = subject.view.replicas[found[0]]
        where = ", ".join(f"{broker} in {racks[broker]}" for broker in replicas if broker in racks)
        yield Finding(
            Severity.WARNING,
            Kind.RACK_RULE,
            topic,
            f"{numbers(found)} not spread over racks as evenly as can be ({found[0].partition} is "
            f"on brokers {where}): plan a reassignment",
            tuple(found),
        )


def not_preferred(subject: Subject) -> Partitions:
    """Partitions with a leader that is not their first replica."""
    return [
        partition
        for partition, leader in subject.view.leaders.items()
        if subject.view.replicas.get(partition, (leader,))[0] != leader
    ]


def preferred_findings(subject: Subject, found: Partitions) -> Iterator[Finding]:
    """Findings by topic about leaders that are not preferred."""
    for topic, partitions in by_topic(found).items():
        wanted = {subject.view.replicas[partition][0] for partition in partitions}
        absent = wanted - subject.racks.keys()
        cure = (
            f"{brokers_named(absent)} is gone: start it again, or reassign"
            if absent
            else "elect preferred leaders"
        )
        yield Finding(
            Severity.NOTICE,
            Kind.NOT_PREFERRED,
            topic,
            f"{numbers(partitions)} not led by the preferred replica: {cure}",
            tuple(partitions),
        )


# ---- Who carries more, or less, than a fair share.
#
# In two steps, so that each finding has one cure. *Racks* are compared by what their brokers
# would have of an even cluster; a rack is passed over where the rack rules leave it no choice (with
# as many replicas as racks, a small rack's brokers must carry more). *Brokers* are compared with
# the others of their rack. Uneven leaders of racks may well be meant (a leader layout puts
# them where consumers are) and are a notice only.


def shares(subject: Subject) -> tuple[dict[int, Share], dict[str | None, Share]]:
    """What every broker and every rack carries; replicas on brokers that are gone do not count."""
    replicas: Counter[int] = Counter()
    leaders: Counter[int | None] = Counter()
    preferred: Counter[int] = Counter()
    for partition, row in subject.view.replicas.items():
        replicas.update(row)
        preferred.update(row[:1])
        leaders[subject.leader(partition)] += 1
    of_broker = {
        broker: Share(1, replicas[broker], leaders[broker], preferred[broker])
        for broker in sorted(subject.racks)
    }
    of_rack: dict[str | None, Share] = {}
    for rack in sorted(set(subject.racks.values()), key=lambda rack: (rack is None, rack or "")):
        inside = [of_broker[b] for b, stands in subject.racks.items() if stands == rack]
        of_rack[rack] = Share(
            len(inside),
            sum(share.replicas for share in inside),
            sum(share.leaders for share in inside),
            sum(share.preferred for share in inside),
        )
    return of_broker, of_rack


def uneven_findings(
    subject: Subject,
    of_broker: Mapping[int, Share],
    of_rack: Mapping[str | None, Share],
    tolerance: float,
) -> Iterator[Finding]:
    """Racks, then brokers, off their fair share by more than ``tolerance`` and at least one."""
    bounds = _bounds(subject)
    sizes = {rack: share.brokers for rack, share in of_rack.items()}
    for kind, counts, within in (
        (Kind.UNEVEN_REPLICAS, {r: share.replicas for r, share in of_rack.items()}, bounds),
        (Kind.UNEVEN_LEADERS, {r: share.leaders for r, share in of_rack.items()}, {}),
    ):
        for rack, fair in _fair(sum(counts.values()), sizes, within).items():
            if _off(counts[rack], fair, tolerance, sizes[rack]):
                among = "that a rack of its size can have at the most even"
                yield _finding(kind, rack_name(rack), counts[rack], fair, among, False)
    for broker, share in of_broker.items():
        home = of_rack[subject.racks[broker]]
        for kind, mine, all_of in (
            (Kind.UNEVEN_REPLICAS, share.replicas, home.replicas),
            (Kind.UNEVEN_LEADERS, share.leaders, home.leaders),
        ):
            fair = all_of / home.brokers
            if _off(mine, fair, tolerance, 1):
                among = f"that the brokers of {rack_name(subject.racks[broker])} have on average"
                yield _finding(kind, f"broker {broker}", mine, fair, among, True)


def _fair(
    total: int,
    sizes: Mapping[str | None, int],
    bounds: Mapping[str | None, tuple[int, int]],
) -> dict[str | None, float]:
    """``total`` shared out to racks so that their brokers are as even as ``bounds`` permit.

    Every broker has the same, but where its rack is at a bound; that level is found by halving.
    """

    def at(level: float) -> dict[str | None, float]:
        found: dict[str | None, float] = {}
        for rack, size in sizes.items():
            least, most = bounds.get(rack, (0, total))
            found[rack] = min(max(size * level, least), most)
        return found

    low, high = 0.0, float(total)
    for _ in range(64):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(at(middle).values()) < total else (low, middle)
    return at(high)


def _off(mine: int, fair: float, tolerance: float, least: int) -> bool:
    """Is it off by more than a share, and by ``least``: whole numbers cannot be all alike?"""
    return abs(mine - fair) > fair * tolerance and abs(mine - fair) >= least


def _finding(
    kind: Kind, subject: str, mine: int, fair: float, among: str, is_broker: bool
) -> Finding:
    what = "replicas" if kind is Kind.UNEVEN_REPLICAS else "leaders"
    cure = "plan a reassignment" if kind is Kind.UNEVEN_REPLICAS else "plan a leader layout"
    if kind is Kind.UNEVEN_LEADERS and not is_broker:
        cure = "leave it if consumers are there, else plan a leader layout"
    notice = kind is Kind.UNEVEN_LEADERS and not is_broker
    return Finding(
        Severity.NOTICE if notice else Severity.WARNING,
        kind,
        subject,
        f"{mine} {what} instead of {fair:.0f} {among}: {cure}",
    )


def _bounds(subject: Subject) -> dict[str | None, tuple[int, int]]:
    """Per rack, the fewest and the most replicas that the rack rules leave it."""
    found = rack_tree(subject)
    if found is None:
        return {}
    tree, place = found
    node_of = {
        rack: tree.nodes[tree.leaf[place[broker]], -1] for broker, rack in subject.racks.items()
    }
    factors = Counter(len(row) for row in subject.view.replicas.values())
    bounds: dict[str | None, tuple[int, int]] = dict.fromkeys(node_of, (0, 0))
    for factor, count in factors.items():
        least, most = tree.shares(min(factor, len(place)))
        for rack, node in node_of.items():
            low, high = bounds[rack]
            bounds[rack] = (low + count * int(least[node]), high + count * int(most[node]))
    return bounds


def rack_name(rack: str | None) -> str:
    """``rack a``, or what stands for it."""
    return f"rack {rack}" if rack else "no rack"


_ORDER = list(Severity)


def audit(
    view: ClusterView,
    *,
    in_sync: Mapping[TopicPartition, Collection[int]] | None = None,
    min_in_sync: int | Mapping[str, int] = 1,
    tolerance: float = 0.1,
    wanted: Mapping[TopicPartition, Wanted] | None = None,
) -> Audit:
    """What is wrong with a layout, or uneven in it.

    ``in_sync``: the replicas of each partition that are in sync; left out, all that are on brokers
    of ``view``. ``min_in_sync``: min.insync.replicas, of all topics or per topic (1 where it is
    not said). ``tolerance``: by what share a broker or rack may be off its fair share (and it
    must be off by a whole replica or leader). A ``view`` without any leaders is one that does
    not know them: preferred ones then count. ``wanted``: partitions that shall have more replicas
    than they could be made with; what is missing of these is a placeholder.

    Raises InvalidOptionError for a tolerance or a ``min_in_sync`` that cannot be meant.
    """
    if not 0 <= tolerance < float("inf"):
        raise InvalidOptionError(f"tolerance is {tolerance!r}: give a share, such as 0.1")
    subject = Subject.of(view, in_sync, min_in_sync)
    offline, below, under = states(subject)
    broken = against_rules(subject)
    led_by_others = not_preferred(subject)
    of_broker, of_rack = shares(subject)
    sizes = Counter(partition.topic for partition in view.replicas)
    findings: list[Finding] = [*state_findings(subject, offline, below, under)]
    lost_offline, lost_below = {}, {}
    for name, brokers in places(subject).items():
        without, too_few = lost_with(subject, brokers)
        lost_offline[name], lost_below[name] = len(without), len(too_few)
        findings += loss_findings(name, without, too_few, sizes)
    findings += rack_findings(subject)
    findings += rule_findings(subject, broken or [])
    findings += uneven_findings(subject, of_broker, of_rack, tolerance)
    findings += preferred_findings(subject, led_by_others)
    findings += placeholder_findings(subject, wanted or {})
    return Audit(
        figures=Figures(
            brokers=of_broker,
            racks=of_rack,
            partitions=len(view.replicas),
            replicas=sum(map(len, view.replicas.values())),
            offline=len(offline),
            below_min_in_sync=len(below),
            under_replicated=len(under),
            not_preferred=len(led_by_others),
            against_rack_rules=None if broken is None else len(broken),
            lost_offline=lost_offline,
            lost_below_min_in_sync=lost_below,
        ),
        findings=tuple(sorted(findings, key=lambda finding: _ORDER.index(finding.severity))),
    )
