"""The audit of a cluster's consumer groups: what they read across racks, and what would change it.

:mod:`~rackward.audit.reader` reads; everything else is pure.
"""

from rackward.audit.rates import RateSource, ReadRates
from rackward.audit.reader import (
    ClusterReading,
    GroupReading,
    read_cluster,
    read_rates,
    watch_rates,
    with_min_isr,
)
from rackward.audit.report import AuditReport, GroupAudit, Reads, audit_cluster
from rackward.audit.steps import LedBy, Library, Step, StepKind

__all__ = [
    "AuditReport",
    "ClusterReading",
    "GroupAudit",
    "GroupReading",
    "LedBy",
    "Library",
    "RateSource",
    "ReadRates",
    "Reads",
    "Step",
    "StepKind",
    "audit_cluster",
    "read_cluster",
    "read_rates",
    "watch_rates",
    "with_min_isr",
]
