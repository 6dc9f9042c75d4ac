"""A plan, and the cluster that it was made from."""

from __future__ import annotations

from dataclasses import replace

from placement_core import Broker, ClusterView, TopicPartition
from placement_core.cluster import Move
from placement_core.leaders import Locality
from rackward.admin import ClusterState, Ongoing
from rackward.reassignment import Load, Pace, Plan, PlanKind, PlannedMove, RacksFrom

RACKS: dict[int, str | None] = {1: "a", 2: "b", 3: "c", 4: None}
ORDERS = "0f8d2c1e-0000-4000-8000-000000000001"


def place(partition: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, partition)


PLAN = Plan(
    kind=PlanKind.PLACEMENT,
    cluster_id="this-cluster",
    made="2026-11-21T13:40:00Z",
    asked={"replication_factor": 3, "drain": [2], "topics": ["orders", "größen"], "even": False},
    racks_from=RacksFrom.METADATA,
    brokers=RACKS,
    topic_ids={"größen": None, "orders": ORDERS},
    moves=(
        PlannedMove(Move(place(0, "größen"), (2, 1), (1, 2)), leader=None, bytes=None),
        PlannedMove(Move(place(0), (1,), (1, 2, 3)), leader=1, bytes=1000),
        PlannedMove(Move(place(1), (2, 9), (3, 2)), leader=2, bytes=70),
        PlannedMove(Move(place(10), (3, 2, 1), (3,)), leader=3, bytes=5),
    ),
    before={1: Load(3, 1), 2: Load(4, 2), 3: Load(1, 1), 4: Load(), 9: Load(1, 0)},
    after={1: Load(2, 2), 2: Load(3, 0), 3: Load(3, 2), 4: Load(), 9: Load()},
    pace=Pace(partitions=10, bytes=None, throttle=50_000_000),
    localities=(Locality("billing", 3, 1, 2),),
)

LEADERS = replace(
    PLAN,
    kind=PlanKind.LEADERS,
    topic_ids={"orders": ORDERS},
    moves=(PlannedMove(Move(place(0), (1, 2), (2, 1)), leader=1, bytes=1),),
)


def state(
    replicas: dict[TopicPartition, tuple[int, ...]] | None = None,
    ongoing: dict[TopicPartition, Ongoing] | None = None,
    racks: dict[int, str | None] | None = None,
    topic_ids: dict[str, str | None] | None = None,
) -> ClusterState:
    """The cluster as PLAN saw it, but for what is given."""
    rows = {each.move.partition: each.move.before for each in PLAN.moves} | (replicas or {})
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
        ongoing=ongoing or {},
    )
