"""Reassignments: the target layout, the moves to it and batches of moves."""

from placement_core.cluster import Move, moves_between
from placement_core.reassignment.batches import Batch, split_into_batches
from placement_core.reassignment.plan import Reassignment, plan_reassignment

__all__ = [
    "Batch",
    "Move",
    "Reassignment",
    "moves_between",
    "plan_reassignment",
    "split_into_batches",
]
