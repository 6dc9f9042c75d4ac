"""Free TCP ports on 127.0.0.1 that nobody is likely to take before their owner does."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

from rackward.clusters.errors import ClusterError

RANGE = range(15000, 31000)
"""Below the ports that Linux (32768 up) and macOS (49152 up) give to outgoing connections:
a port from there may be some client's own by the time a broker binds, or binds again."""


_next = random.SystemRandom().randrange(len(RANGE))


def free_ports(count: int) -> list[int]:
    """That many distinct ports that can be bound now, and that this process never gave out before.

    A process hands them out in a row from a random start, and goes on where it stopped: a
    port is not given twice while its first owner has yet to bind it, and the rows of two
    processes that start clusters at the same time hardly ever meet.
    """
    global _next
    found: list[int] = []
    with ExitStack() as held:
        for _ in RANGE:
            if len(found) == count:
                break
            port = RANGE[_next]
            _next = (_next + 1) % len(RANGE)
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
