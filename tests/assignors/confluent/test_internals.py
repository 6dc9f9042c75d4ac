"""The check of confluent's and kafka-python's private parts, when a consumer is constructed."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version

import pytest
from confluent_kafka import KafkaError, cimpl
from kafka.net.manager import KafkaConnectionManager

from assignors import library_internals
from assignors.confluent import Consumer, UnsupportedClientError, consumer, internals
from assignors.confluent.config import COOPERATIVE
from assignors.kafka_python.internals import check_kafka_python

SETTINGS = {"group.id": "g", "partition.assignment.strategy": COOPERATIVE, "log_level": 0}


@pytest.fixture(autouse=True)
def _check_again() -> Iterator[None]:
    """Clear the cached results of checks before and after each test."""
    checks = (internals.check_clients, check_kafka_python)
    for check in checks:
        check.cache_clear()
    yield
    for check in checks:
        check.cache_clear()


def construct() -> None:
    Consumer(SETTINGS).close()


def construct_async() -> None:
    if internals.VERSION < (2, 13):
        pytest.skip("before 2.13 there is no AIOConsumer")
    from assignors.confluent import AIOConsumer

    async def run() -> None:
        await AIOConsumer(dict(SETTINGS)).close()

    asyncio.run(run())


@pytest.mark.parametrize("make", [construct, construct_async])
def test_the_installed_clients_have_all_internals(make: Callable[[], None]) -> None:
    internals.check_clients()
    make()


@pytest.mark.parametrize("make", [construct, construct_async])
def test_a_missing_part_of_confluent_is_named(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[], None]
) -> None:
    table = {cimpl: ["_renamed_identity_var"]}
    monkeypatch.setattr(internals, "INTERNALS", table)
    with pytest.raises(UnsupportedClientError) as caught:
        make()
    installed = version("confluent-kafka")
    assert f"confluent-kafka {installed} has no " in str(caught.value)
    assert "cimpl._renamed_identity_var" in str(caught.value)
    assert internals.SUPPORTED in str(caught.value)


def test_an_error_of_error_cb_does_not_replace_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """librdkafka has found no broker by the time of the check, and close() calls the callback."""
    reported: list[KafkaError] = []
    # Seconds in which librdkafka has to notice: more on a busy machine.
    pauses = [1, 5, 25]

    def raise_error(error: KafkaError) -> None:
        reported.append(error)
        raise RuntimeError("from error_cb")

    def fail() -> None:
        time.sleep(pauses.pop(0))
        raise UnsupportedClientError("the reason")

    monkeypatch.setattr(consumer, "check_clients", fail)
    with socket.socket() as bound:
        # Bound, but not listening: connections are refused, and no other process gets the port.
        bound.bind(("127.0.0.1", 0))
        servers = f"127.0.0.1:{bound.getsockname()[1]}"
        while pauses and not reported:
            with pytest.raises(UnsupportedClientError, match="the reason"):
                Consumer(SETTINGS | {"bootstrap.servers": servers, "error_cb": raise_error})
    assert reported


def test_a_missing_part_of_kafka_python_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(KafkaConnectionManager, "bootstrap_async")
    with pytest.raises(UnsupportedClientError, match=r"kafka-python .* has no .*bootstrap_async"):
        construct()


def test_an_older_confluent_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_internals, "installed_version", lambda _: "2.11.1")
    with pytest.raises(UnsupportedClientError, match=r"older .*: install 'confluent-kafka>=2.12"):
        construct()


def test_another_format_of_the_group_metadata_is_refused() -> None:
    with pytest.raises(UnsupportedClientError, match=r"begins with b'CGMDv3:g'"):
        internals.check_group_metadata(b"CGMDv3:group")


def test_every_construction_checks_the_group_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(internals, "GROUP_METADATA_MAGIC", b"CGMDv9:")
    with pytest.raises(UnsupportedClientError, match="group metadata"):
        construct()


def test_only_this_adapter_needs_kafka_pythons_event_loop() -> None:
    """kafka-python 3.1 has another one: kafka.net.selector is gone."""
    program = """
        import kafka.net.selector
        del kafka.net.selector.NetworkSelector
        import assignors.kafka_python, rackward.kafka, rackward.lead
        import assignors.confluent
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
    )
    error = ended.stderr.splitlines()[-1]
    assert error.startswith("assignors.library_internals.UnsupportedClientError: kafka-python 3.")
    assert "NetworkSelector" in error
    assert "kafka.net.selector" in error
