"""What a placement service has done so far, for metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServiceCounts:
    """A moment's figures. All but ``open_connections`` only ever grow.

    ``connections``: accepted. ``displaced_connections``: closed while they waited, to make room.
    ``refused_connections``: closed at once, for all others were being answered.
    ``refused_handshakes``: without TLS, or without a certificate that is trusted.
    ``refused_frames``: too long, malformed, or a request that is not served.
    ``slow_connections``: closed for sending nothing, or a frame or its answer, for too long.
    ``requests``: answered, ApiVersions included; ``placements``: of these, those that were made;
    ``failed_placements``: those that were answered with an error.
    """

    open_connections: int = 0
    connections: int = 0
    displaced_connections: int = 0
    refused_connections: int = 0
    refused_handshakes: int = 0
    refused_frames: int = 0
    slow_connections: int = 0
    requests: int = 0
    placements: int = 0
    failed_placements: int = 0
