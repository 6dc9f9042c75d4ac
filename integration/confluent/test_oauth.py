"""OAUTHBEARER on a real broker: tokens of a callback or of a token endpoint, which expire."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from assignors.confluent import AIOConsumer
from integration.support.command_line import one_line, rackward
from integration.support.confluent import (
    RACKWARD,
    Callbacks,
    Consumers,
    new_group,
    poll_until,
    read_records,
)
from integration.support.secured import Secured
from integration.support.topics import create_topic, new_name
from tests.support.security import (
    CLIENT_ID,
    SECRET,
    TokenServer,
    run_token_server,
    send_json,
    unsecured_token,
    write_file,
)
from tests.support.waiting import TEST_TIMEOUT

LIFETIME = 6.0
"""Seconds until a token expires, and with it the session of each connection."""

EXPIRIES = 3
WRONG_SECRET = "canary-looking-glass"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "OAUTHBEARER"}
LOGGER = {"logger": logging.getLogger("test_oauth")}
"""Without a logger, lines of kafka-python below WARNING would be dropped."""


@pytest.fixture(scope="module")
def records(secured: Secured) -> str:
    """A topic of three partitions with nine records at first."""
    topic = create_topic(secured.cluster, new_name("oauth"), [[0]] * 3)
    produce(secured, topic, 9)
    return topic


def produce(secured: Secured, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": secured.cluster.bootstrap_servers})
    for _ in range(count):
        producer.produce(topic, b"x")
    assert producer.flush(TEST_TIMEOUT) == 0


def consumers_of(secured: Secured) -> Consumers:
    return Consumers(RACKWARD, secured.cluster.bootstrap("oauth"))


@pytest.fixture
def token_server(secured: Secured) -> Iterator[TokenServer]:
    with run_token_server(secured.authority.sign("localhost")) as server:
        yield server


@dataclass
class CountingCallback:
    """An oauth_cb that records its calls and tokens."""

    lifetime: float = LIFETIME
    configs: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)

    def __call__(self, config: str) -> tuple[str, float, str, dict[str, str]]:
        self.configs.append(config)
        self.tokens.append(unsecured_token(self.lifetime))
        return self.tokens[-1], time.time() + self.lifetime, "alice", {}


def oidc(server: TokenServer, secured: Secured, secret: str = SECRET) -> dict[str, Any]:
    return {
        **SASL,
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": server.url,
        "sasl.oauthbearer.client.id": CLIENT_ID,
        "sasl.oauthbearer.client.secret": secret,
        "sasl.oauthbearer.scope": "kafka",
        "https.ca.location": secured.files["ca"],
    }


def read_past_expiry(secured: Secured, records: str, consumer: Any) -> None:
    """Read and commit until several tokens have expired; the member must keep its partitions."""
    callbacks = Callbacks()
    consumer.subscribe([records], **callbacks.all)
    read_records(consumer, 1)
    member, calls = consumer.memberid(), list(callbacks.calls)
    end = time.monotonic() + EXPIRIES * LIFETIME
    while time.monotonic() < end:
        produce(secured, records, 3)
        read_records(consumer, 3)
        assert consumer.commit(asynchronous=False)
    assert consumer.memberid() == member
    assert callbacks.calls == calls
    consumer.close()


def assert_no_secret(output: str, *tokens: str) -> None:
    assert SECRET not in output
    assert WRONG_SECRET not in output
    assert not [token for token in tokens if token in output]


def assert_reauthenticated(log: str) -> None:
    """Assert that the membership's connection lived through the expiry of its tokens."""
    assert "re-authentication failed" not in log
    assert log.count("Beginning SASL re-authentication") >= EXPIRIES


@pytest.mark.slow
def test_tokens_of_a_callback_expire(
    secured: Secured,
    records: str,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    callback = CountingCallback()
    consumers = consumers_of(secured)
    consumer = consumers({**SASL, **LOGGER, "oauth_cb": callback, "sasl.oauthbearer.config": "a=b"})
    read_past_expiry(secured, records, consumer)
    assert set(callback.configs) == {"a=b"}
    # No more calls than librdkafka makes for its own connections: one per 80 % of a lifetime.
    assert EXPIRIES <= len(callback.tokens) <= EXPIRIES / 0.8 + 4
    assert_reauthenticated(caplog.text)
    assert_no_secret(caplog.text + "".join(capfd.readouterr()), *callback.tokens)


def test_tokens_of_an_endpoint_expire(
    secured: Secured,
    records: str,
    token_server: TokenServer,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    token_server.lifetime = LIFETIME
    consumers = consumers_of(secured)
    read_past_expiry(secured, records, consumers({**oidc(token_server, secured), **LOGGER}))
    assert len(token_server.tokens) >= EXPIRIES
    assert {form["scope"][0] for form in token_server.forms} == {"kafka"}
    assert_reauthenticated(caplog.text)
    assert_no_secret(caplog.text + "".join(capfd.readouterr()), *token_server.tokens)


def test_java_property_names(secured: Secured, records: str, token_server: TokenServer) -> None:
    consumers = consumers_of(secured)
    consumer = consumers(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": token_server.url,
            "sasl.login.callback.handler.class": HANDLER,
            "sasl.jaas.config": jaas(secured),
        }
    )
    consumer.subscribe([records])
    assert len(read_records(consumer, 9)) == 9
    assert consumer.commit(asynchronous=False)
    consumer.close()
    # Both clients requested one.
    assert len(token_server.tokens) == 2


def test_a_callback_that_fails_for_a_while(secured: Secured, records: str) -> None:
    callback = CountingCallback(lifetime=LIFETIME)

    def failing_once(config: str) -> Any:
        result = callback(config)
        if len(callback.tokens) == 2:
            raise RuntimeError("no token now")
        return result

    consumers = consumers_of(secured)
    consumer = consumers({**SASL, "oauth_cb": failing_once})
    consumer.subscribe([records])
    read_records(consumer, 1)
    # librdkafka calls it again ten seconds after a failure; the token expires meanwhile.
    end = time.monotonic() + TEST_TIMEOUT
    while len(callback.tokens) < 4:
        assert time.monotonic() < end
        consumer.poll(0.1)
    produce(secured, records, 3)
    poll_until(
        consumer, until=lambda messages: any(not m.error() for m in messages), what="a record"
    )
    assert consumer.commit(asynchronous=False)
    consumer.close()


def test_the_asyncio_consumer(secured: Secured, records: str) -> None:
    callback = CountingCallback()

    async def run() -> None:
        consumer = AIOConsumer(
            {
                **SASL,
                "oauth_cb": callback,
                "bootstrap.servers": secured.cluster.bootstrap("oauth"),
                "group.id": new_group(),
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": RACKWARD.cooperative,
                "client.rack": "a",
            }
        )
        await consumer.subscribe([records])
        deadline = time.monotonic() + TEST_TIMEOUT
        message = None
        while message is None:
            assert time.monotonic() < deadline
            message = await consumer.poll(0.2)
        assert message.error() is None
        await consumer.close()

    asyncio.run(run())
    assert callback.tokens


def jaas(secured: Secured, secret: str = SECRET) -> str:
    return (
        f'{MODULE} required clientId="{CLIENT_ID}" clientSecret="{secret}" scope="kafka"'
        f' ssl.truststore.type="PEM" ssl.truststore.location="{secured.files["ca"]}";'
    )


def test_the_command_line(secured: Secured, token_server: TokenServer, tmp_path: Path) -> None:
    def config(secret: str) -> str:
        return write_file(
            tmp_path,
            "client.properties",
            "security.protocol=SASL_PLAINTEXT\n"
            "sasl.mechanism=OAUTHBEARER\n"
            f"sasl.login.callback.handler.class={HANDLER}\n"
            f"sasl.oauthbearer.token.endpoint.url={token_server.url}\n"
            f"sasl.jaas.config={jaas(secured, secret)}\n",
        )

    topic = new_name("oauth")
    create = ("topics", "create", topic, "-p", "2", "-r", "1", "--yes", "--command-config")
    done = rackward(secured.cluster.bootstrap("oauth"), *create, config(SECRET))
    assert_no_secret(done.out + done.err, *token_server.tokens)
    assert len(secured.cluster.view([topic]).replicas) == 2

    failed = rackward(secured.cluster.bootstrap("oauth"), *create, config(WRONG_SECRET), status=2)
    assert "HTTP status 401 (invalid_client): check client id, client" in one_line(failed)
    assert_no_secret(failed.out + failed.err)

    token_server.respond = lambda handler: send_json(
        handler, 200, {"access_token": "not.a.jws", "expires_in": 60}
    )
    refused = one_line(
        rackward(secured.cluster.bootstrap("oauth"), *create, config(SECRET), status=2)
    )
    assert "authentication failed" in refused
    assert "check sasl.oauthbearer.client.id" in refused
    assert_no_secret(refused, "not.a.jws")
