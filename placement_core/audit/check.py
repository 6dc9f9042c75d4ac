"""All checks of a layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from placement_core.audit.evenness import shares, uneven_findings
from placement_core.audit.model import Audit, Figures, Finding, Severity
from placement_core.audit.placeholders import placeholder_findings
from placement_core.audit.redundancy import (
    loss_findings,
    lost_with,
    places,
    state_findings,
    states,
)
from placement_core.audit.spread import (
    against_rules,
    not_preferred,
    preferred_findings,
    rack_findings,
    rule_findings,
)
from placement_core.audit.subject import Subject
from placement_core.cluster import ClusterView, TopicPartition
from placement_core.errors import InvalidOptionError
from placement_core.filling import Wanted

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
