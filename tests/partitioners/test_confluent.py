"""confluent's producers without a cluster: configuration, threads, and no broker that answers."""

from __future__ import annotations

import importlib.util
import logging
import threading
import time
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest

from assignors.library_internals import UnsupportedClientError
from partitioners.confluent import Producer
from partitioners.confluent.leaders import Leaders
from placement_core import InvalidOptionError
from tests.support.waiting import wait_until

NOBODY = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
RACK = {**NOBODY, "client.rack": "a"}


def leader_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "rackward-producer-leaders"]


def leaders(**options: Any) -> Leaders:
    arguments: dict[str, Any] = {
        "rack": "a",
        "max_share": 3,
        "sticky_seconds": 0.01,
        "interval": 10,
        "slow_delivery": 0.05,
    }
    return Leaders(NOBODY, **{**arguments, **options})


@pytest.fixture(autouse=True)
def no_thread_is_left() -> None:
    wait_until(lambda: not leader_threads(), 10, "earlier threads have ended")


def test_without_a_rack_it_is_confluents(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        stock = Producer(NOBODY)
    stock.produce("t", b"v")
    assert len(caplog.records) == 1
    assert not leader_threads()
    assert len(stock) >= 1
    stock.purge()


@pytest.mark.parametrize("partitioner", ["consistent", "murmur2", "fnv1a"])
def test_one_partition_for_unkeyed_records_is_kept(partitioner: str) -> None:
    fixed = Producer({**RACK, "partitioner": partitioner})
    fixed.produce("t", b"v")
    assert not leader_threads()
    fixed.purge()


def test_without_brokers_produce_returns_at_once() -> None:
    waiting = Producer(RACK)
    started = time.monotonic()
    for _ in range(1000):
        waiting.produce("t", b"v")
    assert time.monotonic() - started < 1
    assert len(leader_threads()) == 1
    assert len(waiting) >= 1000
    waiting.purge()
    started = time.monotonic()
    waiting.close_leaders()
    assert time.monotonic() - started < 2
    assert not leader_threads()


def test_a_collected_producer_leaves_no_thread() -> None:
    forgotten = Producer(RACK)
    forgotten.produce("t", b"v")
    forgotten.purge()
    assert leader_threads()
    del forgotten
    wait_until(lambda: not leader_threads(), 10, "the thread has ended")


def test_keyed_records_and_partitions_start_no_thread() -> None:
    keyed = Producer(RACK)
    keyed.produce("t", b"v", b"k")
    keyed.produce("t", value=b"v", partition=3)
    keyed.produce_batch("t", [{"value": b"v"}], partition=1)
    assert not leader_threads()
    assert len(keyed) >= 3
    keyed.purge()


def test_max_share_is_validated() -> None:
    with pytest.raises(InvalidOptionError, match="max_share"):
        Producer({**RACK, "rackward.max_share": 0.5})


def test_confluent_refuses_what_it_refuses() -> None:
    with pytest.raises(confluent_kafka.KafkaException):
        Producer({**RACK, "no.such.property": 1})
    with pytest.raises(TypeError):
        Producer({**RACK, "error_cb": 1})
    with pytest.raises(TypeError):
        Producer(RACK).produce()  # type: ignore[call-arg]


def test_error_callback_is_called() -> None:
    errors: list[Any] = []
    failing = Producer({**RACK, "error_cb": errors.append})
    failing.produce("t", b"v")

    def called() -> bool:
        failing.poll(0.1)
        return bool(errors)

    wait_until(called, 10, "error_cb is called")
    failing.purge()


def test_delivery_callbacks_are_called_once() -> None:
    delivered: list[str] = []
    reporting = Producer({**RACK, "on_delivery": lambda *_: delivered.append("default")})
    reporting.produce("t", b"v")
    reporting.produce("t", b"v", on_delivery=lambda *_: delivered.append("given"))
    reporting.produce("t", b"v", callback=lambda *_: delivered.append("given"))
    reporting.purge()
    reporting.flush(5)
    assert sorted(delivered) == ["default", "given", "given"]


def test_sticky_partition_is_near_and_changes() -> None:
    chosen = leaders()
    chosen.close()  # No thread.
    assert chosen.choose("t") == -1
    chosen._update("t", {0: "a", 1: "b", 2: "a"})
    assert "t" not in chosen.sticky
    assert {chosen.choose("t") for _ in range(4)} == {0, 2}
    chosen._update("t", {1: "b"})
    assert chosen.choose("t") == 1
    chosen._update("t", {})
    assert chosen.choose("t") == -1


def test_leaders_that_are_down_are_left_without_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # librdkafka sends the request to the broker that was the controller when it last asked. If
    # that broker is down, it waits for it until the request's timeout.
    def partition(number: int, broker: int, rack: str) -> SimpleNamespace:
        leader = SimpleNamespace(id=broker, host="127.0.0.1", port=broker, rack=rack)
        return SimpleNamespace(id=number, leader=leader)

    partitions = [partition(0, 1, "a"), partition(1, 2, "a"), partition(2, 3, "b")]
    unanswered: list[Future[Any]] = []
    answers = [True]

    class Admin:
        def __init__(self, _: object) -> None:
            pass

        def describe_topics(self, *_: object, **__: object) -> dict[str, Future[Any]]:
            future: Future[Any] = Future()
            if answers[0]:
                future.set_result(SimpleNamespace(partitions=partitions))
            else:
                unanswered.append(future)
            return {"t": future}

    monkeypatch.setattr("partitioners.confluent.leaders.AdminClient", Admin)
    monkeypatch.setattr("partitioners.confluent.leaders.MIN_INTERVAL", 0.01)
    monkeypatch.setattr(
        "partitioners.confluent.leaders._accepts_connections", lambda _, port: port != 1
    )
    chosen = leaders()
    try:
        wait_until(lambda: chosen.choose("t") in (0, 1), 10, "the leaders are known")
        answers[0] = False
        chosen.broker_failed()
        wait_until(
            lambda: {chosen.choose("t") for _ in range(4)} == {1},
            5,
            "the live leader is used alone",
        )
        wait_until(lambda: bool(unanswered), 5, "a request without an answer")
    finally:
        chosen.close()
        chosen.join()


def test_slow_and_failed_deliveries_wake_the_thread() -> None:
    watched = leaders()

    class Message:
        def __init__(self, latency: float | None) -> None:
            self.latency = lambda: latency

    for error, latency, wakes in ((None, 0.01, False), (None, 0.1, True), ("error", None, True)):
        watched._wake.clear()
        watched.observe(None)(error, Message(latency))
        assert watched._wake.is_set() == wakes


def test_an_old_release_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assignors.library_internals.installed_version", lambda _: "2.11.1")
    with pytest.raises(UnsupportedClientError, match=r"2\.11\.1"):
        Producer(NOBODY)


@pytest.mark.skipif(
    importlib.util.find_spec("confluent_kafka.aio") is not None, reason="has an AIOProducer"
)
def test_without_aio_the_aio_producer_is_refused() -> None:
    with pytest.raises(UnsupportedClientError):
        from partitioners.confluent import AIOProducer  # noqa: F401
