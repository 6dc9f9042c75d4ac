"""Clusters whose true traffic is known to the byte, and the snapshots a collector takes of them.

A world is simulated in steps of a few seconds: producers append, leaders move, members come and go,
groups read in their several ways. Each step's bytes are booked under the racks of that very step.
The pipeline sees snapshots alone, at times of their own, with the faults that were asked for.
"""

from tests.rack_traffic.truth.faults import Fault
from tests.rack_traffic.truth.observe import observe
from tests.rack_traffic.truth.simulate import World, simulate

__all__ = ["Fault", "World", "observe", "simulate"]
