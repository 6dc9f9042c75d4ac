"""Reassignments: the target layout, the moves to it, batches of moves, and Kafka's JSON format."""

from placement_core.cluster import Move, moves_between
from placement_core.reassignment.batches import Batch, split_into_batches
from placement_core.reassignment.kafka_json import from_kafka_json, to_kafka_json
from placement_core.reassignment.plan import Reassignment, plan_reassignment

__all__ = [
    "Batch",
    "Move",
    "Reassignment",
    "from_kafka_json",
    "moves_between",
    "plan_reassignment",
    "split_into_batches",
    "to_kafka_json",
]
