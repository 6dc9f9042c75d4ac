"""Notes on the health of partitions, computed from a cluster state; throttles in force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from placement_core import TopicPartition
from placement_core.audit import Finding, Kind, Severity, audit
from placement_core.placers.under_replicated import ReplicationTarget
from rackward.kafka import AdminConnection, AdminError, ClusterState
from rackward.reassignment.throttle import ReplicationThrottle, ThrottleSettings

NOTED = (
    Kind.OFFLINE,
    Kind.BELOW_MIN_IN_SYNC,
    Kind.UNDER_REPLICATED,
    Kind.RACK_RULE,
    Kind.PLACEHOLDERS,
    Kind.MOVING,
    Kind.NOT_PREFERRED,
)
"""The kinds of what is noted about a partition, from the most severe to the least."""
UNHEALTHY = NOTED[: NOTED.index(Kind.MOVING)]
"""Those that are problems."""
_SEVERITY = {kind: rank for rank, kind in enumerate(NOTED)}


@dataclass(frozen=True, slots=True)
class Health:
    """Health of the partitions of a cluster.

    ``notes`` are per partition, the most severe first; partitions without notes are left out.
    ``findings`` are those of the audit that are about unhealthy partitions or brokers' racks.
    """

    notes: Mapping[TopicPartition, tuple[Kind, ...]]
    findings: tuple[Finding, ...]


def partition_health(
    state: ClusterState,
    min_isr: Mapping[str, int],
    targets: Mapping[TopicPartition, ReplicationTarget] | None = None,
) -> Health:
    """Return the health of the topics in ``state``.

    ``min_isr`` is min.insync.replicas per topic (default 1). ``targets`` are those of partitions
    with placeholders. Replicas that a reassignment is adding do not count.
    """
    report = audit(
        state.without_adding_replicas(state.view),
        in_sync=state.in_sync,
        min_isr=min_isr,
        targets=targets,
    )
    notes: dict[TopicPartition, set[Kind]] = {}
    for finding in report.findings:
        if finding.kind in NOTED:
            for tp in finding.partitions:
                notes.setdefault(tp, set()).add(finding.kind)
    for tp in state.reassignments:
        notes.setdefault(tp, set()).add(Kind.MOVING)
    return Health(
        notes={tp: tuple(sorted(notes[tp], key=_SEVERITY.__getitem__)) for tp in sorted(notes)},
        findings=tuple(
            finding
            for finding in report.findings
            if finding.kind in (*UNHEALTHY, Kind.RACK_UNKNOWN, Kind.ONE_RACK)
        ),
    )


def read_throttle_findings(
    admin: AdminConnection, *, reassigning: bool
) -> tuple[tuple[Finding, ...], str | None]:
    """Return the finding that a replication throttle is in force, if there is one.

    And the reason why settings cannot be read, None if all can.
    """
    try:
        settings = ReplicationThrottle(admin).read_all()
    except AdminError as error:
        return (), str(error)
    return throttle_findings(settings, reassigning=reassigning), settings.not_read


def throttle_findings(settings: ThrottleSettings, *, reassigning: bool) -> tuple[Finding, ...]:
    """Return a finding if a replication throttle is in force, whichever tool has set it.

    It is a warning unless replicas are being reassigned: replicas that fall behind copy at its
    rate, too.
    """
    if not settings.in_force:
        return ()
    message = (
        f"replication is throttled: {settings.text}: to remove it: rackward placement throttle "
        "--remove"
    )
    severity = Severity.NOTICE if reassigning else Severity.WARNING
    return (Finding(severity, Kind.THROTTLE, "cluster", message),)


def listed_topics(state: ClusterState, health: Health, *, unhealthy: bool) -> list[str]:
    """Return all topics, or only the ``unhealthy`` ones, sorted by severity and name."""
    severity: dict[str, int] = {}
    for tp, notes in health.notes.items():
        if notes[0] in UNHEALTHY:
            rank = _SEVERITY[notes[0]]
            severity[tp.topic] = min(rank, severity.get(tp.topic, rank))
    names = severity if unhealthy else state.topics
    return sorted(names, key=lambda name: (severity.get(name, len(NOTED)), name))
