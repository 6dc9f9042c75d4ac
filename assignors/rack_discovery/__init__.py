"""Where this process stands: the rack that a member tells its group.

:func:`chosen_rack` is what every adapter asks. ``rack="use1-az1"`` is the rack itself,
``rack=discover("aws-zone-id")`` the one source to ask for it, and ``rack=None`` asks what the
environment names and then the plug-ins, in the order of :mod:`assignors.rack_discovery.resolve`. A
command, or a cloud's metadata, is asked only where it is named.

Nothing here raises over a source that fails or hangs: it costs BUDGET seconds at most, and the
consumer starts without a rack.
"""

from assignors.rack_discovery.resolve import chosen_rack, discover
from assignors.rack_discovery.source import RackSource, SourceError

__all__ = ["RackSource", "SourceError", "chosen_rack", "discover"]
