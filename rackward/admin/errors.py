"""Why a cluster could not be asked, or said no: each error says what to do."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from kafka.errors import for_code

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


# ---- What Kafka's error codes mean to the person who asked.

UNKNOWN_TOPIC = 3
TIMED_OUT = 7
COORDINATOR_LOADING = 14
TOPIC_EXISTS = 36
NOT_CONTROLLER = 41
REASSIGNMENT_IN_PROGRESS = 60
ELECTION_NOT_NEEDED = 84
NO_REASSIGNMENT = 85

_UNRECOGNIZED = "UnrecognizedBrokerError"
_UNAUTHORIZED = (29, 30, 31, 53)

NEEDS = {
    "AlterPartitionReassignments": "Alter on the cluster",
    "CreatePartitions": "Alter on the topic",
    "CreateTopics": "Create on the cluster, or on the topic",
    "DeleteTopics": "Delete on the topic",
    "DescribeCluster": "Describe on the cluster",
    "DescribeConfigs": "DescribeConfigs on the topic or the cluster",
    "DescribeGroups": "Describe on the group",
    "DescribeLogDirs": "Describe on the cluster",
    "ElectLeaders": "Alter on the cluster",
    "IncrementalAlterConfigs": "AlterConfigs on the topic or the cluster",
    "ListPartitionReassignments": "Describe on the cluster",
    "Metadata": "Describe on the topic",
}
"""Per request, the operation that an ACL has to allow."""

_MEANING = {
    UNKNOWN_TOPIC: "there is no such topic or partition, or it is hidden from this user",
    17: "Kafka takes letters, digits, dots, underscores and hyphens, at most 249 of them",
}
_ADVICE = {
    TOPIC_EXISTS: "choose another name, or delete it first",
    44: "a policy of the cluster forbids it: ask its administrators",
    73: "the brokers have delete.topic.enable=false",
    REASSIGNMENT_IN_PROGRESS: "wait until it is done, or cancel it first",
    89: "the cluster limits how much may be changed at a time: try again later",
}


def refusal(
    doing: str, api: str, code: int, message: str | None = None, needs: str | None = None
) -> AdminError:
    """The error for ``code``, which a broker answered to a request of the kind ``api``.

    ``doing`` says what was tried ("creating topic orders"); ``api`` is the request's name
    ("CreateTopics" or "CreateTopicsRequest"); ``needs`` which operation an ACL has to allow,
    where NEEDS does not say it well enough.
    """
    name = for_code(code).__name__
    if code in _UNAUTHORIZED:
        name = api.removesuffix("Request")
        allow = needs or NEEDS.get(name, name)
        return UnauthorizedError(f"{doing}: this user may not; allow it {allow}")
    told = one_line(message or _MEANING.get(code) or words(name)).rstrip(".")
    if name == _UNRECOGNIZED and not message:
        told = f"error code {code}, which this client does not know"
    if code == TIMED_OUT:
        return AdminTimeoutError(f"{doing}: the controller did not finish in time ({told})")
    if advice := _ADVICE.get(code):
        told = f"{told}: {advice}"
    return RefusedError(f"{doing}: {told}", code, name)


def one_line(text: object) -> str:
    """A text without line breaks and runs of blanks."""
    return " ".join(str(text).split())


def words(name: str) -> str:
    """``InvalidReplicationFactorError`` as ``invalid replication factor``."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", name.removesuffix("Error")).lower()


# ---- Until when something may take.


@dataclass(frozen=True, slots=True)
class Deadline:
    """``seconds`` from the moment it was made; ``clock`` counts seconds."""

    seconds: float
    at: float
    clock: Callable[[], float]

    @classmethod
    def after(cls, seconds: float, clock: Callable[[], float] = time.monotonic) -> Deadline:
        """The deadline ``seconds`` from now."""
        return cls(seconds, clock() + seconds, clock)

    @property
    def remaining(self) -> float:
        """Seconds left, 0 where it has passed."""
        return max(0.0, self.at - self.clock())
