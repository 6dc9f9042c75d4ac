"""What goes wrong between a placement service and whoever asks it."""

from __future__ import annotations

from placement_core import RackwardError


class MalformedFrameError(RackwardError, ValueError):
    """Bytes that are no message of this service; the text never holds the bytes themselves."""


class UnknownRequestError(MalformedFrameError):
    """A request of a kind, or of a version, that this service does not serve."""


class PlacementServiceError(RackwardError):
    """A placement service could not be asked, or it said no."""


class ServiceUnreachableError(PlacementServiceError):
    """Nothing answers there, or not in time."""


class ServiceTlsError(PlacementServiceError):
    """The service and its client do not trust each other, or only one of them speaks TLS."""


class NotAPlacementServiceError(PlacementServiceError):
    """Something else answers there: a broker of Kafka, say, or a web server."""


class ServiceRefusedError(PlacementServiceError):
    """The service answered with an error; ``code`` is one of Kafka's error codes."""

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        super().__init__(message)
