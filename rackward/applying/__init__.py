"""Carrying plans out on a live cluster, and taking back what is under way."""

from rackward.applying.cancelling import Cancellation, cancel
from rackward.applying.cluster import LiveCluster, MovableCluster
from rackward.applying.engine import Engine
from rackward.applying.events import Event, Tell
from rackward.applying.outcome import Outcome
from rackward.applying.settings import Settings
from rackward.applying.timing import Timing

__all__ = [
    "Cancellation",
    "Engine",
    "Event",
    "LiveCluster",
    "MovableCluster",
    "Outcome",
    "Settings",
    "Tell",
    "Timing",
    "cancel",
]
