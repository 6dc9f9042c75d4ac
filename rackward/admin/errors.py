"""Why a cluster could not be asked, or said no: each error says what to do."""

from __future__ import annotations

from placement_core import RackwardError


class AdminError(RackwardError):
    """The cluster could not be asked, or it said no."""


class UnreachableError(AdminError):
    """No broker could be reached, or what was reached is not the Kafka that was described."""


class CredentialsError(AdminError):
    """The cluster does not take who the client says it is."""


class UnauthorizedError(AdminError):
    """The user may not do this; the message names the operation that has to be allowed."""


class AdminTimeoutError(AdminError, TimeoutError):
    """The cluster did not answer in the time allowed."""


class TooOldError(AdminError):
    """The brokers do not know the request."""


class TooLargeError(AdminError):
    """The answer is larger than ``receive.message.max.bytes`` lets through."""


class RefusedError(AdminError):
    """The cluster refused; ``code`` is Kafka's error code, ``name`` kafka-python's for it."""

    def __init__(self, message: str, code: int, name: str) -> None:
        self.code, self.name = code, name
        super().__init__(message)
