"""Audit of a layout: counts, and findings about faults and unevenness with what to do."""

from placement_core.audit.audit import audit
from placement_core.audit.model import Audit, Figures, Finding, Kind, ReplicaCounts, Severity

__all__ = ["Audit", "Figures", "Finding", "Kind", "ReplicaCounts", "Severity", "audit"]
