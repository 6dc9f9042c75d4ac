"""confluent's ``oauth_cb``, whose tokens both connections use."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError

from assignors.confluent import Consumer
from assignors.confluent.config import COOPERATIVE, read_configuration
from assignors.connection import oauth
from assignors.connection.oauth import SharedOAuthCallback

SASL = {"security.protocol": "SASL_SSL", "sasl.mechanisms": "OAUTHBEARER"}
CANARY = "canary-hunter2"


@pytest.fixture(autouse=True)
def _short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth, "CALLBACK_WAIT_SECONDS", 0.3)


def returning(*result: object) -> SharedOAuthCallback:
    shared = SharedOAuthCallback(lambda _config: result)
    assert shared("config") == result
    return shared


def test_both_connections_get_the_same_token() -> None:
    calls: list[str] = []

    def callback(config: str) -> tuple[str, float, str, dict[str, str]]:
        calls.append(config)
        return CANARY, time.time() + 60, "alice", {"logicalCluster": "lkc-1"}

    properties: dict[Any, Any] = {
        **SASL,
        "group.id": "g",
        "partition.assignment.strategy": COOPERATIVE,
        "oauth_cb": SharedOAuthCallback(callback),
    }
    configuration = read_configuration(properties, {})
    provider: Any = configuration.kafka_python["sasl_oauth_token_provider"]
    assert provider is properties["oauth_cb"]
    assert provider("a=b")[0] == CANARY
    assert provider.token() == CANARY
    assert provider.extensions() == {"logicalCluster": "lkc-1"}
    assert calls == ["a=b"]
    assert CANARY not in repr(configuration) + repr(vars(provider))


def test_what_is_not_callable_is_left_to_confluent() -> None:
    properties = {"group.id": "g", "partition.assignment.strategy": COOPERATIVE, "oauth_cb": "x"}
    with pytest.raises(TypeError, match="expected oauth_cb property"):
        Consumer(properties)


@pytest.mark.parametrize("more", [(), ("alice",), ("alice", {})])
def test_results_that_confluent_accepts(more: tuple[object, ...]) -> None:
    assert returning(CANARY, time.time() + 60, *more).token() == CANARY


@pytest.mark.parametrize(
    "result",
    [
        (),
        (CANARY,),
        (CANARY, "soon"),
        (f"{CANARY}\x01auth=x", 9e9),
        (CANARY, 9e9, "alice", None),
        (CANARY, 9e9, "alice", {"auth": "x"}),
        (CANARY, 9e9, "alice", {}, 1),
        (CANARY, 1.0),
    ],
)
def test_results_without_a_valid_token(result: tuple[object, ...]) -> None:
    shared = returning(*result)
    with pytest.raises(KafkaConnectionError, match="oauth_cb has returned no token") as caught:
        shared.token()
    assert CANARY not in repr(caught.value)


def test_an_exception_reaches_confluent_and_the_last_token_stays() -> None:
    results: list[Any] = [(CANARY, time.time() + 60)]
    shared = SharedOAuthCallback(lambda _config: results.pop())
    shared("")
    with pytest.raises(IndexError):
        shared("")
    assert shared.token() == CANARY


def test_the_membership_waits_for_a_new_token() -> None:
    results = [("new", time.time() + 60), ("old", time.time() - 1)]
    shared = SharedOAuthCallback(lambda _config: results.pop())
    shared("")
    threading.Timer(0.1, shared, [""]).start()
    assert shared.token() == "new"
