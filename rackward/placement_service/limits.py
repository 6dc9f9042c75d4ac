"""How much peers may ask of a placement service, and for how long."""

from __future__ import annotations

from dataclasses import dataclass, fields

from placement_core import InvalidOptionError


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """Bounds on what peers can make the service hold, do and wait for.

    ``frame_bytes``: of a request; room for 16,000 broker ids. ``connections``: at once; one
    more displaces the one that has been waiting longest for a request.
    ``idle_seconds``: between requests; ``handshake_seconds``: for TLS; ``frame_seconds``: from a
    request's first byte to its last; ``answer_seconds``: for the peer to take its answer.
    ``partitions`` and ``replicas`` (all of them): of one placement, which bounds the answer too.
    ``placing_at_once``: placements under way; ``placing_seconds``: for one, its time in the queue
    included, where the request does not allow less.
    ``closing_seconds``: for what is under way when the service stops.

    Raises InvalidOptionError for a limit that is not above 0.
    """

    frame_bytes: int = 64 * 1024
    connections: int = 256
    idle_seconds: float = 60.0
    handshake_seconds: float = 10.0
    frame_seconds: float = 10.0
    answer_seconds: float = 10.0
    partitions: int = 10_000
    replicas: int = 50_000
    placing_at_once: int = 2
    placing_seconds: float = 30.0
    closing_seconds: float = 2.0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not value > 0:
                raise InvalidOptionError(f"{each.name} is {value!r}: give a number above 0")
