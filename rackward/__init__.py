"""Rack-aware Kafka: consumer groups, replica placement and traffic between racks.

What applications may use, imported when it is first used: each name needs the extra of its part,
such as ``rackward[cli]`` or ``rackward[cluster]``.

>>> from rackward import audit_cluster, connect
>>> with connect({"bootstrap.servers": "kafka:9092"}) as admin:
...     report = audit_cluster(admin, ["orders-*"])
"""

from typing import TYPE_CHECKING

from placement_core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rackward.groups.audit import audit_cluster
    from rackward.groups.audit_report import AuditReport
    from rackward.kafka import connect
    from rackward.lead import GroupLeader, LeadOptions
    from rackward.placement_service import create_replica_placement
    from rackward.reassignment.plan import Plan, load_plan
    from rackward.testing import DockerCluster, LocalCluster

__all__ = [
    "AuditReport",
    "DockerCluster",
    "GroupLeader",
    "LeadOptions",
    "LocalCluster",
    "Plan",
    "audit_cluster",
    "connect",
    "create_replica_placement",
    "load_plan",
]


__getattr__ = lazy_exports(
    __name__,
    {
        "rackward.groups.audit_report": ("AuditReport",),
        "rackward.testing": ("DockerCluster", "LocalCluster"),
        "rackward.lead": ("GroupLeader", "LeadOptions"),
        "rackward.reassignment.plan": ("Plan", "load_plan"),
        "rackward.groups.audit": ("audit_cluster",),
        "rackward.kafka": ("connect",),
        "rackward.placement_service": ("create_replica_placement",),
    },
)
