"""``rackward demo``: compares assignors on one Kafka cluster in three racks."""

from placement_core import RackwardError


class DemoError(RackwardError):
    """The demo cannot continue."""
