"""Rack-aware Kafka: consumer groups, replica placement and traffic between racks.

What applications may use, imported when it is first used: each name needs the extra of its part,
such as ``rackward[cli]`` or ``rackward[cluster]``.

>>> from rackward import audit_cluster, connect
>>> with connect({"bootstrap.servers": "kafka:9092"}) as admin:
...     report = audit_cluster(admin, ["orders-*"])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rackward.groups.audit import audit_cluster
    from rackward.groups.audit_report import AuditReport
    from rackward.kafka import connect
    from rackward.lead import GroupLeader, LeadOptions
    from rackward.placement_service import create_replica_placement
    from rackward.reassignment.plan import Plan, load_plan
    from rackward.testing import DockerCluster, LocalCluster

_MODULES = {
    "AuditReport": "rackward.groups.audit_report",
    "DockerCluster": "rackward.testing",
    "GroupLeader": "rackward.lead",
    "LeadOptions": "rackward.lead",
    "LocalCluster": "rackward.testing",
    "Plan": "rackward.reassignment.plan",
    "audit_cluster": "rackward.groups.audit",
    "connect": "rackward.kafka",
    "create_replica_placement": "rackward.placement_service",
    "load_plan": "rackward.reassignment.plan",
}

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


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
