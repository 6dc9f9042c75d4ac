"""Kafka's error codes in words."""

from __future__ import annotations

import pytest
from kafka.errors import (
    IncompatibleBrokerVersion,
    InvalidReplicationFactorError,
    SaslAuthenticationFailedError,
)

from rackward.admin import (
    AdminTimeoutError,
    CredentialsError,
    RefusedError,
    TooOldError,
    UnauthorizedError,
)
from rackward.admin.client import translated
from rackward.admin.errors import refusal


@pytest.mark.parametrize(
    ("code", "message", "kind", "told"),
    [
        (36, "Topic 'a' already\nexists.", RefusedError,
         "creating a: Topic 'a' already exists: choose another name, or delete it first"),
        (36, None, RefusedError,
         "creating a: topic already exists: choose another name, or delete it first"),
        (38, None, RefusedError, "creating a: invalid replication factor"),
        (17, None, RefusedError,
         "creating a: Kafka takes letters, digits, dots, underscores and hyphens, at most 249 of "
         "them"),
        (29, "Authorization failed.", UnauthorizedError,
         "creating a: this user may not; allow it Create on the cluster, or on the topic"),
        (7, None, AdminTimeoutError,
         "creating a: the controller did not finish in time (request timed out)"),
        (9999, None, RefusedError, "creating a: error code 9999, which this client does not know"),
    ],
)  # fmt: skip
def test_a_code_becomes_a_line(code: int, message: str | None, kind: type, told: str) -> None:
    error = refusal("creating a", "CreateTopicsRequest", code, message)
    assert type(error) is kind
    assert str(error) == told
    if isinstance(error, RefusedError):
        assert error.code == code


def test_what_the_client_raises_becomes_a_line() -> None:
    wrong = translated("connecting", SaslAuthenticationFailedError("Authentication failed"))
    assert isinstance(wrong, CredentialsError)
    assert "does not take this user and password (Authentication failed): check sasl" in str(wrong)
    old = translated("reading", IncompatibleBrokerVersion("Kafka 0.9\ndoes not"))
    assert isinstance(old, TooOldError)
    assert "\n" not in str(old)
    refused = translated("creating a", InvalidReplicationFactorError("too many"))
    assert isinstance(refused, RefusedError)
    assert (refused.code, str(refused)) == (38, "creating a: too many")
