"""Free TCP ports on 127.0.0.1 that nobody is likely to take before their owner does."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

from rackward.clusters.errors import ClusterError

RANGE = range(15000, 31000)
"""Below the ports that Linux (32768 up) and macOS (49152 up) give to outgoing connections:
a port from there may be some client's own by the time a broker binds, or binds again."""


def free_ports(count: int) -> list[int]:
    """That many distinct ports that can be bound now; two callers seldom get the same."""
    found: list[int] = []
    with ExitStack() as held:
        for port in random.SystemRandom().sample(RANGE, len(RANGE)):
            if len(found) == count:
                break
            door = held.enter_context(socket.socket())
            # As Java binds: a port that only lingers after its last owner counts as free.
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                door.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
    if len(found) < count:
        raise ClusterError(f"only {len(found)} of {count} ports are free on 127.0.0.1")
    return found
