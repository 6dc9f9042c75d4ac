"""Who carries more, or less, than a fair share.

In two steps, so that each finding has one cure. *Racks* are compared by what their brokers
would have of an even cluster; a rack is passed over where the rack rules leave it no choice (with
as many replicas as racks, a small rack's brokers must carry more). *Brokers* are compared with
the others of their rack. Uneven leaders of racks may well be meant (a leader layout puts
them where consumers are) and are a notice only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from placement_core.audit.model import Finding, Kind, Severity, Share
from placement_core.audit.spread import rack_tree
from placement_core.audit.subject import Subject


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
