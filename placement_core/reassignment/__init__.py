"""From one layout to another: the target, the moves that lead to it, and Kafka's JSON of them."""

from placement_core.cluster import Move, moves_between
from placement_core.reassignment.batches import Batch, batches
from placement_core.reassignment.kafka_json import from_kafka_json, to_kafka_json
from placement_core.reassignment.plan import Reassignment, plan_reassignment

__all__ = [
    "Batch",
    "Move",
    "Reassignment",
    "batches",
    "from_kafka_json",
    "moves_between",
    "plan_reassignment",
    "to_kafka_json",
]
