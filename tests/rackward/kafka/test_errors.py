"""Error messages for Kafka's error codes and for exceptions of kafka-python."""

from __future__ import annotations

import pytest
from kafka.errors import (
    ClusterAuthorizationFailedError,
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    IncompatibleBrokerVersion,
    InvalidReplicationFactorError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
)

from rackward.kafka import (
    AdminTimeoutError,
    CredentialsError,
    RefusedError,
    TooOldError,
    UnauthorizedError,
)
from rackward.kafka.errors import from_code, wrap


@pytest.mark.parametrize(
    ("code", "message", "kind", "expected"),
    [
        (36, "Topic 'a' already\nexists.", RefusedError,
         "creating a: Topic 'a' already exists: choose another name, or delete it first"),
        (36, None, RefusedError,
         "creating a: topic already exists: choose another name, or delete it first"),
        (38, None, RefusedError, "creating a: invalid replication factor"),
        (17, None, RefusedError,
         "creating a: a topic name has letters, digits, dots, underscores and hyphens, at most "
         "249"),
        (29, "Authorization failed.", UnauthorizedError,
         "creating a: not authorized: grant this user Create on the cluster, or on the topic"),
        (7, None, AdminTimeoutError,
         "creating a: the controller did not finish in time (request timed out)"),
        (9999, None, RefusedError, "creating a: unknown error code 9999"),
    ],
)  # fmt: skip
def test_message_of_an_error_code(
    code: int, message: str | None, kind: type, expected: str
) -> None:
    error = from_code("creating a", "CreateTopicsRequest", code, message)
    assert type(error) is kind
    assert str(error) == expected
    if isinstance(error, RefusedError):
        assert error.code == code


def test_message_of_a_client_exception() -> None:
    authentication = wrap("connecting", SaslAuthenticationFailedError("Authentication failed"))
    assert isinstance(authentication, CredentialsError)
    assert "authentication failed (Authentication failed): check sasl" in str(authentication)
    too_old = wrap("reading", IncompatibleBrokerVersion("Kafka 0.9\ndoes not"))
    assert isinstance(too_old, TooOldError)
    assert "\n" not in str(too_old)
    no_text = wrap("verifying", CoordinatorNotAvailableError(None))
    assert str(no_text) == "verifying: coordinator not available"
    refused = wrap("creating a", InvalidReplicationFactorError("too many"))
    assert isinstance(refused, RefusedError)
    assert (refused.code, str(refused)) == (38, "creating a: too many")


def test_a_client_exception_names_the_right_that_is_missing() -> None:
    for error, right in (
        (TopicAuthorizationFailedError({"orders"}), "Read on orders"),
        (GroupAuthorizationFailedError("billing"), "Read on group billing"),
        (ClusterAuthorizationFailedError(), "what it lacks (cluster authorization failed)"),
    ):
        wrapped = wrap(
            "reading", error, topic_acl="Read on orders", group_acl="Read on group billing"
        )
        assert isinstance(wrapped, UnauthorizedError)
        assert str(wrapped) == f"reading: not authorized: grant this user {right}"
