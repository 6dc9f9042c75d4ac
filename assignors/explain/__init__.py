"""Why partitions are read from another rack, and what would remedy it. Pure functions.

>>> assignor = LeaderRackAwareCooperativeSticky()
>>> plan = assignor.assign(members, leader_racks)
>>> explanation = explain(members, leader_racks, plan.partitions, assignor)
>>> for finding in explanation.findings:
...     print(finding.count, reason_text(finding), *map(remedy_text, finding.remedies))
"""

from assignors.explain.explain import Explanation, LeaderBrokers, explain
from assignors.explain.text import (
    LocalityFinding,
    Reason,
    Remedy,
    RemedyKind,
    partition_ranges,
    reason_text,
    remedy_text,
)

__all__ = [
    "Explanation",
    "LeaderBrokers",
    "LocalityFinding",
    "Reason",
    "Remedy",
    "RemedyKind",
    "explain",
    "partition_ranges",
    "reason_text",
    "remedy_text",
]
