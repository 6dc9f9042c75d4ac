"""From one layout to another: the target, the moves that lead to it, and Kafka's JSON of them."""

from placement_core.moves import Move, moves_between
from placement_core.reassignment.batching import Batch, batches
from placement_core.reassignment.kafka_json import from_kafka_json, to_kafka_json
from placement_core.reassignment.target import Reassignment, plan_reassignment

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
