"""Why partitions are read from another rack, and what would mend it; pure.

>>> found = explain(members, leader_racks, plan.partitions, LeaderRackAwareCooperativeSticky())
>>> for finding in found.findings:
...     print(finding.count, why(finding), *map(mend, finding.remedies))
"""

from assignors.explain.explain import explain
from assignors.explain.model import Explanation, Finding, LeaderBrokers, Reason, Remedy, RemedyKind
from assignors.explain.text import mend, numbers_text, why

__all__ = [
    "Explanation",
    "Finding",
    "LeaderBrokers",
    "Reason",
    "Remedy",
    "RemedyKind",
    "explain",
    "mend",
    "numbers_text",
    "why",
]
