"""Errors of the clusters that rackward runs; each message says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from placement_core import RackwardError

LOG_TAIL_LINES = 20
"""Number of log lines that a BrokerError carries."""


class ClusterError(RackwardError):
    """A cluster operation failed."""


class BrokerError(ClusterError):
    """A node failed to start or to answer.

    ``broker_id`` is the id of the failed node (the controller has an id too); ``log_tail``
    holds the last lines of its log, "" if the log is empty.
    """

    def __init__(self, broker_id: int, problem: str, log: str, advice: str) -> None:
        self.broker_id = broker_id
        self.log_tail = tail(log)
        log_text = f"end of its log:\n{self.log_tail}" if self.log_tail else "its log is empty"
        super().__init__(f"node {broker_id} {problem}; {advice}; {log_text}")


class UnknownBrokerError(ClusterError):
    """The cluster has no broker with this id."""


class UnknownClientRackError(ClusterError):
    """The cluster has no listener for clients of this rack."""


class BrokerStateError(ClusterError):
    """The operation is not possible in the broker's state, such as killing a dead broker."""


class ClusterTimeoutError(ClusterError, TimeoutError):
    """The cluster did not reach the expected state in time."""


class ClusterClosedError(ClusterError):
    """The cluster is closed."""

    def __init__(self) -> None:
        super().__init__("the cluster is closed: create a new one")


class DownloadError(ClusterError):
    """Kafka's jars could not be downloaded."""


class ChecksumError(DownloadError):
    """A downloaded jar is not the one that is expected."""


class MissingExtraError(ClusterError, ImportError):
    """A package that this kind of cluster needs is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed: pip install 'rackward[{extra}]'")


class DockerUnavailableError(ClusterError):
    """No Docker engine answers, or it refuses the image."""


class PortTakenError(ClusterError):
    """Another process took a port between the choice of the port and its use; retry."""


@contextmanager
def requires_extra(extra: str) -> Iterator[None]:
    """Raise MissingExtraError, with the name of the missing package, for a failed import.

    The block should import only packages of other projects.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or str(error), extra) from error


def tail(log: str) -> str:
    """Return the last LOG_TAIL_LINES lines of ``log``."""
    return "\n".join(log.rstrip().splitlines()[-LOG_TAIL_LINES:])
