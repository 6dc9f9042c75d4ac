"""From one layout to another: the target, the moves that lead to it, and Kafka's JSON of them."""

from placement_core.reassignment.moves import Move, moves_between
from placement_core.reassignment.target import Reassignment, plan_reassignment

__all__ = ["Move", "Reassignment", "moves_between", "plan_reassignment"]
