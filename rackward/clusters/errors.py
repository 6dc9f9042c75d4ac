"""What can go wrong with a cluster that rackward runs: each error says what to do."""

from __future__ import annotations

from placement_core import RackwardError

LOG_TAIL_LINES = 20
"""How much of a broker's log an error carries."""


class ClusterError(RackwardError):
    """A cluster that rackward runs, or one of its brokers, did not do what was asked."""


class BrokerError(ClusterError):
    """A broker failed: it carries the broker's id and the last lines of its log.

    ``broker_id`` is the node that failed (the controller has an id too); ``log_tail`` is
    what it last wrote, "" where it wrote nothing.
    """

    def __init__(self, broker_id: int, what: str, log: str, advice: str) -> None:
        self.broker_id = broker_id
        self.log_tail = tail(log)
        told = f"; the end of its log:\n{self.log_tail}" if self.log_tail else "; it logged nothing"
        super().__init__(f"node {broker_id} {what}; {advice}{told}")


class UnknownBrokerError(ClusterError, KeyError):
    """No broker of this cluster has that id."""

    def __init__(self, broker_id: int, known: object) -> None:
        self.broker_id = broker_id
        super().__init__(f"there is no broker {broker_id}; the cluster has {known}")

    def __str__(self) -> str:
        return str(self.args[0])


class UnknownClientRackError(ClusterError, KeyError):
    """The cluster has no listener for clients of that rack."""

    def __init__(self, rack: str, known: tuple[str, ...]) -> None:
        self.rack = rack
        super().__init__(
            f"no listener for clients of rack {rack!r}; there are listeners for "
            f"{', '.join(map(repr, known)) or 'no rack'}: name it in client_racks"
        )

    def __str__(self) -> str:
        return str(self.args[0])


class BrokerStateError(ClusterError):
    """A broker is not in the state that the call needs (killed twice, say)."""

    def __init__(self, broker_id: int, state: str, wanted: str) -> None:
        self.broker_id, self.state = broker_id, state
        super().__init__(f"broker {broker_id} is {state}: this needs a broker that is {wanted}")


class ClusterTimeoutError(ClusterError, TimeoutError):
    """The cluster did not get there in time."""


class ClusterClosedError(ClusterError):
    """The cluster was closed, and something was asked of it."""

    def __init__(self) -> None:
        super().__init__("the cluster is closed: make another one")


class DownloadError(ClusterError):
    """Kafka's jars could not be had."""


class MissingExtraError(ClusterError, ImportError):
    """A package that this kind of cluster needs is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed: pip install 'rackward[{extra}]'")


class DockerUnavailableError(ClusterError):
    """No Docker engine answers, or the image cannot be had."""


class PortTakenError(ClusterError):
    """Somebody took a port between our look and the broker's; starting again helps."""


def tail(log: str, lines: int = LOG_TAIL_LINES) -> str:
    """The last lines of a log."""
    return "\n".join(log.rstrip().splitlines()[-lines:])
