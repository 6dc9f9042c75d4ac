"""Errors of the placement service and of its client."""

from __future__ import annotations

from placement_core import RackwardError


class MalformedFrameError(RackwardError, ValueError):
    """Bytes that are not a message of this service; the text never contains the bytes."""


class UnknownRequestError(MalformedFrameError):
    """A request of a key or a version that this service does not serve."""


class PlacementServiceError(RackwardError):
    """A call of a placement service failed."""


class ListeningError(PlacementServiceError):
    """The service cannot listen on its address."""


class ServiceUnreachableError(PlacementServiceError):
    """The service cannot be reached, or did not respond in time."""


class ServiceTlsError(PlacementServiceError):
    """Service and client do not trust each other's certificates, or only one of them uses TLS."""


class NotAPlacementServiceError(PlacementServiceError):
    """The server is something else, such as a Kafka broker or a web server."""


class ServiceRefusedError(PlacementServiceError):
    """The service responded with an error; ``code`` is one of Kafka's error codes."""

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        super().__init__(message)
