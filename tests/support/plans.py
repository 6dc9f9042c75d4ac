"""A plan with every feature, and the cluster that it was created for."""

from __future__ import annotations

from msgspec.structs import replace

from placement_core import Broker, ClusterView, TopicPartition
from placement_core.leaders import Locality
from rackward.kafka import ClusterState, Reassignment
from rackward.reassignment import BatchLimits, Plan, PlanKind, RackSource
from rackward.reassignment.plan import PlannedPartition

RACKS: dict[int, str | None] = {1: "a", 2: "b", 3: "c", 4: None}
ORDERS = "0f8d2c1e-0000-4000-8000-000000000001"


def tp(partition: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, partition)


PLAN = Plan(
    kind=PlanKind.PLACEMENT,
    cluster_id="this-cluster",
    created_at="2026-11-21T13:40:00Z",
    options={"replication_factor": 3, "drain": [2], "topics": ["orders", "größen"], "even": False},
    rack_source=RackSource.METADATA,
    racks=RACKS,
    topic_ids={"größen": None, "orders": ORDERS},
    partitions=(
        PlannedPartition("größen", 0, (2, 1), (1, 2)),
        PlannedPartition("orders", 0, (1,), (1, 2, 3), leader=1, bytes=1000),
        PlannedPartition("orders", 1, (2, 9), (3, 2), leader=2, bytes=70),
        PlannedPartition("orders", 10, (3, 2, 1), (3,), leader=3, bytes=5),
    ),
    limits=BatchLimits(partitions=10, bytes=None, throttle=50_000_000),
    localities=(Locality("billing", 3, 1, 2),),
)

LEADERS = replace(
    PLAN,
    kind=PlanKind.LEADERS,
    topic_ids={"orders": ORDERS},
    partitions=(PlannedPartition("orders", 0, (1, 2), (2, 1), leader=1, bytes=1),),
)


def planned_state(
    replicas: dict[TopicPartition, tuple[int, ...]] | None = None,
    reassignments: dict[TopicPartition, Reassignment] | None = None,
    racks: dict[int, str | None] | None = None,
    topic_ids: dict[str, str | None] | None = None,
) -> ClusterState:
    """Return the cluster that PLAN was created for, with these changes."""
    rows = {move.partition: move.before for move in PLAN.moves} | (replicas or {})
    brokers = RACKS if racks is None else racks
    ids = {"größen": None, "orders": ORDERS} if topic_ids is None else topic_ids
    return ClusterState(
        cluster_id="this-cluster",
        view=ClusterView(
            brokers=tuple(Broker(each, rack) for each, rack in brokers.items()),
            replicas={p: row for p, row in rows.items() if row and p.topic in ids},
            leaders={p: row[0] for p, row in rows.items() if row},
        ),
        topic_ids=ids,
        reassignments=reassignments or {},
    )
