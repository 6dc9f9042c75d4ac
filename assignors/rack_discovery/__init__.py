"""The rack that a consumer runs in, which it sends to its group.

All adapters call :func:`resolve_rack`. ``rack="use1-az1"`` is the rack itself,
``rack=discover("aws-zone-id")`` names one source, and ``rack=None`` searches the environment
variables, then the installed plug-ins. No command is run and no network request is made unless a
source that does so is named.

A source that fails or hangs raises nothing: the search takes ``SEARCH_TIMEOUT`` seconds at most,
and the consumer starts without a rack.
"""

from assignors.rack_discovery.resolve import discover, member_rack, resolve_rack
from assignors.rack_discovery.sources import RackSource, SourceError

__all__ = ["RackSource", "SourceError", "discover", "member_rack", "resolve_rack"]
