"""Consumer groups on a cluster that counts bytes: what ``rackward demo`` and ``bench`` share."""

from placement_core import RackwardError


class MeasurementError(RackwardError):
    """A group or a producer under measurement failed, or did not do its part in time."""
