"""What is wrong with a layout, or uneven in it: figures, and findings that say what to do."""

from placement_core.audit.audit import audit
from placement_core.audit.model import Audit, Figures, Finding, Kind, Severity, Share

__all__ = ["Audit", "Figures", "Finding", "Kind", "Severity", "Share", "audit"]
