"""A rack source for hosts whose name contains the rack: app-7.rack-b.example is in rack-b.

Once it is installed, every consumer without a rack of its own uses it. To use it only where it is
wanted, do not register it, and name it instead::

    RACKWARD_RACK_FROM=host_name_rack:own_rack rackward rack

A rack source is a function without arguments. It reads its settings, if it has any, from the
environment.
"""

from __future__ import annotations

import os
import re
import socket

PATTERN_VARIABLE = "HOST_NAME_RACK_PATTERN"
"""A regular expression whose first group is the rack."""

DEFAULT_PATTERN = r"\.(rack-[^.]+)\."


def own_rack() -> str | None:
    """Return the rack in the name of this host, or None if there is none."""
    return rack_in(socket.gethostname(), os.environ.get(PATTERN_VARIABLE) or DEFAULT_PATTERN)


def rack_in(host: str, pattern: str) -> str | None:
    """Return the first group of ``pattern`` in ``host``, or None if it does not match."""
    match = re.search(pattern, host)
    return match[1] if match else None
