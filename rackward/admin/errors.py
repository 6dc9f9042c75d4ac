"""Errors of requests to a cluster: one line each, which ends in what to do about it.

Two functions make them: `from_code` out of an error code in a broker's response, and `wrap` out of
an exception of kafka-python.
"""

from __future__ import annotations

import re

from kafka import errors as kafka_errors

from placement_core import RackwardError


class AdminError(RackwardError):
    """A request to the cluster failed."""


class UnreachableError(AdminError):
    """No broker could be reached, or the server is not a Kafka broker with these settings."""


class CredentialsError(AdminError):
    """Authentication failed."""


class UnauthorizedError(AdminError):
    """The user is not authorized; the message names the ACL operation that is missing."""


class AdminTimeoutError(AdminError, TimeoutError):
    """The cluster did not respond in time."""


class TooOldError(AdminError):
    """The brokers do not support the request."""


class TooLargeError(AdminError):
    """The response is larger than ``receive.message.max.bytes``."""


class RefusedError(AdminError):
    """The cluster refused the request; ``code`` is Kafka's error code, ``name`` the name of
    kafka-python's exception for it."""

    def __init__(self, message: str, code: int, name: str) -> None:
        self.code, self.name = code, name
        super().__init__(message)


UNKNOWN_TOPIC = 3
REQUEST_TIMED_OUT = 7
COORDINATOR_LOADING = 14
INVALID_TOPIC = 17
TOPIC_EXISTS = 36
INVALID_PARTITIONS = 37
NOT_CONTROLLER = 41
POLICY_VIOLATION = 44
REASSIGNMENT_IN_PROGRESS = 60
TOPIC_DELETION_DISABLED = 73
ELECTION_NOT_NEEDED = 84
THROTTLING_QUOTA_EXCEEDED = 89

_AUTHORIZATION_FAILED = (29, 30, 31, 53)

REQUIRED_ACLS = {
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
"""Request name to the ACL operation that it needs."""

_EXPLANATIONS = {
    UNKNOWN_TOPIC: "the topic or partition does not exist, or this user may not describe it",
    INVALID_TOPIC: "a topic name has letters, digits, dots, underscores and hyphens, at most 249",
}
_ADVICE = {
    TOPIC_EXISTS: "choose another name, or delete it first",
    POLICY_VIOLATION: "a policy of the cluster forbids it: contact its administrators",
    TOPIC_DELETION_DISABLED: "the brokers have delete.topic.enable=false",
    REASSIGNMENT_IN_PROGRESS: "wait until it is done, or cancel it first",
    THROTTLING_QUOTA_EXCEEDED: "the cluster limits the rate of changes: try again later",
}


def from_code(
    operation: str, api: str, code: int, message: str | None = None, acl: str | None = None
) -> AdminError:
    """Return the error for an error code in a broker's response.

    ``operation`` begins the message ("creating topic orders"). ``api`` is the request's name
    ("CreateTopics" or "CreateTopicsRequest"). ``message`` is the broker's own text, if it sent one.
    ``acl`` is the missing ACL operation where REQUIRED_ACLS is not specific enough.
    """
    name = kafka_errors.for_code(code).__name__
    if code in _AUTHORIZATION_FAILED:
        api_name = api.removesuffix("Request")
        missing = acl or REQUIRED_ACLS.get(api_name, api_name)
        return UnauthorizedError(f"{operation}: not authorized: grant this user {missing}")
    reason = one_line(message or _EXPLANATIONS.get(code) or _words(name)).rstrip(".")
    if name == "UnrecognizedBrokerError" and not message:
        reason = f"unknown error code {code}"
    if code == REQUEST_TIMED_OUT:
        return AdminTimeoutError(f"{operation}: the controller did not finish in time ({reason})")
    if advice := _ADVICE.get(code):
        reason = f"{reason}: {advice}"
    return RefusedError(f"{operation}: {reason}", code, name)


def wrap(operation: str, error: Exception) -> AdminError:
    """Return an exception of kafka-python, one that retrying does not help, as an AdminError."""
    reason = reason_of(error)
    if isinstance(error, kafka_errors.SaslAuthenticationFailedError):
        return CredentialsError(
            f"{operation}: authentication failed ({reason}): check sasl.username and "
            "sasl.password, or sasl.jaas.config"
        )
    if isinstance(error, kafka_errors.IncompatibleBrokerVersion):
        return TooOldError(
            f"{operation}: the brokers do not support this request ({reason}): they are too old, "
            "or the address is that of a controller"
        )
    if isinstance(error, kafka_errors.InvalidReceiveError):
        return TooLargeError(
            f"{operation}: the response is too large ({reason}): increase receive.message.max.bytes"
        )
    code = getattr(error, "errno", None)
    if isinstance(code, int) and code > 0:
        return from_code(operation, "", code, reason)
    return AdminError(f"{operation}: {reason}")


def reason_of(error: Exception) -> str:
    """Return the text of an exception of kafka-python; its name in words if it has no text."""
    return one_line(error.args[0] if error.args else _words(type(error).__name__))


def one_line(text: object) -> str:
    """Return the text with each run of white space replaced by one blank."""
    return " ".join(str(text).split())


def _words(name: str) -> str:
    """Return ``InvalidReplicationFactorError`` as ``invalid replication factor``."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", name.removesuffix("Error")).lower()
