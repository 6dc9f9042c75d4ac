"""TLS, passwords and tokens on a live broker, with each client, and no secret in any output.

One broker has a listener per protocol. Each client joins a group with rackward's assignor, reads
and commits through it. Log lines of every level, standard output, standard error, errors and the
``repr`` of the consumer are searched for the secrets.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from aiokafka.abc import AbstractTokenProvider

from assignors.connection import kafka_python_settings
from integration.support.aiokafka_clients import AIOKafka
from integration.support.clients import KafkaPython, MakeClient, partitions_of
from integration.support.confluent import Confluent
from integration.support.groups import ConsumerGroup
from integration.support.program_clients import RANGE, Java
from integration.support.secured import KEY_PASSWORD, LISTENERS, PASSWORD, Secured
from integration.support.topics import committed, create_topic, fill, new_name
from rack_traffic.consumer_properties import java_consumer_properties
from tests.support.security import SECRET
from tests.support.waiting import TEST_TIMEOUT, wait_until

WRONG = "canary-jabberwocky"
SECRETS = (KEY_PASSWORD, PASSWORD, SECRET, WRONG)

PARTITIONS = 3
RECORDS = 5
"""Per partition."""

WITH_MECHANISMS = [name for name, listener in LISTENERS.items() if listener.mechanisms]


@pytest.fixture(scope="module")
def records(secured: Secured) -> str:
    """A topic with 15 records."""
    topic = create_topic(secured.cluster, new_name("secured"), [[0]] * PARTITIONS)
    fill(secured.cluster, topic, PARTITIONS, RECORDS)
    return topic


class TokensOf(AbstractTokenProvider):  # type: ignore[misc]
    """kafka-python's provider of tokens, for aiokafka."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider

    async def token(self) -> str:
        token: str = await asyncio.to_thread(self._provider.token)
        return token


def kafka_python(properties: Mapping[str, Any]) -> tuple[MakeClient, dict[str, Any]]:
    return KafkaPython(), kafka_python_settings(properties)


def aiokafka(properties: Mapping[str, Any]) -> tuple[MakeClient, dict[str, Any]]:
    settings = kafka_python_settings(properties)
    if provider := settings.get("sasl_oauth_token_provider"):
        settings["sasl_oauth_token_provider"] = TokensOf(provider)
    return AIOKafka(), settings


def confluent(properties: Mapping[str, Any]) -> tuple[MakeClient, dict[str, Any]]:
    # Only with a logger are kafka-python's lines below WARNING logged too.
    return Confluent(), {**properties, "log_level": 7, "logger": logging.getLogger("confluent")}


CLIENTS: dict[str, Callable[[Mapping[str, Any]], tuple[MakeClient, dict[str, Any]]]] = {
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
    "confluent": confluent,
}

parametrized = pytest.mark.parametrize("client", CLIENTS)


@pytest.fixture
def shown(
    secured: Secured, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> Iterator[list[str]]:
    """A list for further texts that are searched for secrets when the test ends."""
    caplog.set_level(logging.DEBUG)
    texts: list[str] = []
    yield texts
    output = "\n".join([caplog.text, *capfd.readouterr(), *texts])
    assert output.strip()
    found = [secret for secret in (*SECRETS, *secured.token_server.tokens) if secret in output]
    assert found == []


def shown_of(consumer: Any) -> str:
    """Return what a debugger or an error tracker shows of a consumer and of its network client."""
    objects = (consumer, getattr(consumer, "_client", consumer))
    return "\n".join(f"{each!r} {each!s} {getattr(each, '__dict__', '')!r}" for each in objects)


@parametrized
@pytest.mark.parametrize("listener", LISTENERS)
def test_reading_and_committing(
    secured: Secured, records: str, client: str, listener: str, shown: list[str]
) -> None:
    make, settings = CLIENTS[client](secured.properties(listener))
    expected = partitions_of(records, PARTITIONS)
    tokens = len(secured.token_server.tokens)
    with ConsumerGroup(secured.cluster, topics=[records]) as group:
        member = group.start("reader", listener, client=make, **settings)
        group.settle(expected)
        wait_until(
            lambda: all(len(group.reads_of(tp).offsets()) == RECORDS for tp in expected),
            TEST_TIMEOUT,
            "all records are read",
        )
        wait_until(
            lambda: committed(secured.cluster, group.id) == dict.fromkeys(expected, RECORDS),
            TEST_TIMEOUT,
            "all records are committed",
        )
        shown.append(shown_of(member.consumer))
    requested = len(secured.token_server.tokens) > tokens
    assert requested == listener.startswith("oauth")


@pytest.mark.parametrize("listener", ["tls", "scram"])
def test_a_java_consumer_with_the_properties_for_spark(
    secured: Secured, records: str, listener: str
) -> None:
    properties: dict[str, Any] = java_consumer_properties(secured.properties(listener))
    expected = partitions_of(records, PARTITIONS)
    with ConsumerGroup(secured.cluster, topics=[records]) as group:
        group.start("reader", listener, client=Java(RANGE), **properties)
        group.settle(expected)


def test_java_consumer_gets_a_token_with_properties_for_spark(
    secured: Secured, records: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker here takes tokens without a signature only, and Java's consumer refuses those."""
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={secured.token_server.url}"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", allowed)
    properties: dict[str, Any] = java_consumer_properties(secured.properties("oauth-tls"))
    tokens = len(secured.token_server.tokens)
    with ConsumerGroup(secured.cluster, topics=[records]) as group:
        member = group.start("reader", "oauth-tls", client=Java(RANGE), **properties)
        wait_until(lambda: member.error is not None, TEST_TIMEOUT, "the consumer has a response")
    assert "Malformed JWT" in str(member.error)
    assert len(secured.token_server.tokens) > tokens


@parametrized
@pytest.mark.parametrize("listener", WITH_MECHANISMS)
def test_a_wrong_secret(
    secured: Secured,
    records: str,
    client: str,
    listener: str,
    shown: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    errors: list[Any] = []
    make, settings = CLIENTS[client](
        secured.properties(listener, password=WRONG, client_secret=WRONG)
    )
    if client == "confluent":
        settings["error_cb"] = errors.append
    if client == "kafka-python":
        # By default its constructor tries for 30 s to authenticate.
        settings["bootstrap_timeout_ms"] = 5000
    with ConsumerGroup(secured.cluster, topics=[records]) as group:
        member = group.start("reader", listener, client=make, **settings)
        wait_until(
            lambda: bool(member.error or errors or "uthentication failed" in caplog.text),
            TEST_TIMEOUT,
            "the client reports the failure",
        )
        assert member.owned == frozenset()
        shown.extend(error.str() for error in errors)
    if member.error is not None:
        shown.append("".join(traceback.format_exception(member.error)))
    assert committed(secured.cluster, group.id) == {}
