"""Plug-in of pytest for :mod:`integration.confluent.upstream_tests`.

pytest loads it in the checkout of confluent-kafka-python, before it imports a test. It reads its
settings from environment variables:

====================== =======================================================================
UPSTREAM_CONSUMERS     ``confluent``, or ``rackward``: its classes replace confluent's
UPSTREAM_RESULTS       file to which the start and the outcome of each test are appended
UPSTREAM_SECONDS       the process ends when a test takes longer, even inside librdkafka
UPSTREAM_TOPIC         topic of three partitions for integration_test.py
BROKERS                bootstrap servers, read here and by confluent's fixtures
====================== =======================================================================

No module of this checkout's ``tests`` can be imported here: that name is confluent's.
"""

from __future__ import annotations

import asyncio
import faulthandler
import inspect
import json
import os
import sys
from types import ModuleType
from typing import Any

import confluent_kafka
import confluent_kafka.aio
import pytest

import assignors.confluent

STRATEGY = "partition.assignment.strategy"
STRATEGIES = {
    "cooperative-sticky": "leader-rack-aware-cooperative-sticky",
    "range": "leader-rack-aware-range",
    "roundrobin": "leader-rack-aware-range",
}
"""rackward's assignor for each of librdkafka's: the one of the same protocol."""

RECORDS = 5_000
"""Records for integration_test.py, of which ``verify_batch_consumer`` reads 1,000."""


def translate(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Return the constructor's arguments with an assignor of rackward, and with a rack."""
    if arguments and isinstance(arguments[0], dict):
        return (_translate(arguments[0]), *arguments[1:]), keywords
    return arguments, _translate(keywords) if keywords else keywords


def _translate(properties: dict[Any, Any]) -> dict[Any, Any]:
    strategy = properties.get(STRATEGY, "range")
    return {"client.rack": "a", **properties, STRATEGY: STRATEGIES.get(strategy, strategy)}


def for_properties_of_confluent(base: Any) -> Any:
    """Return a subclass of a consumer of rackward's, for properties of confluent's."""

    class Translating(base):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            args, kwargs = translate(args, kwargs)
            super().__init__(*args, **kwargs)

    Translating.__name__ = base.__name__
    return Translating


def substitute() -> None:
    """Replace confluent's classes by rackward's wherever its tests import them from."""
    for name, *modules in (
        ("Consumer", "confluent_kafka", "confluent_kafka.cimpl"),
        # Not in its own module, where a method refers to the class by its name.
        ("DeserializingConsumer", "confluent_kafka"),
        ("AIOConsumer", "confluent_kafka.aio", "confluent_kafka.aio._AIOConsumer"),
    ):
        replacement = for_properties_of_confluent(getattr(assignors.confluent, name))
        for module in modules:
            setattr(sys.modules[module], name, replacement)


def stand_in_for_trivup() -> None:
    """Let confluent's fixtures import trivup, which starts clusters: BROKERS has one already."""
    for name in ("trivup", "trivup.clusters", "trivup.clusters.KafkaCluster"):
        sys.modules.setdefault(name, ModuleType(name))
    sys.modules["trivup.clusters.KafkaCluster"].KafkaCluster = object  # type: ignore[attr-defined]


stand_in_for_trivup()
if os.environ["UPSTREAM_CONSUMERS"] == "rackward":
    substitute()


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker of coroutine tests, which this plug-in runs."""
    config.addinivalue_line("markers", "asyncio: a coroutine, run in a loop of its own")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def pytest_collection_finish() -> None:
    """Give modules what confluent's own environment has: a schema registry, topic and records."""
    fixtures = sys.modules.get("tests.integration.cluster_fixture")
    if fixtures is not None:
        from confluent_kafka.schema_registry import AsyncSchemaRegistryClient, SchemaRegistryClient

        settings = {"url": "mock://upstream"}
        registry = SchemaRegistryClient.new_client(settings)
        asynchronous = AsyncSchemaRegistryClient.new_client(settings)
        fixtures.ByoFixture.schema_registry = lambda *_: registry
        fixtures.ByoFixture.async_schema_registry = lambda *_: asynchronous
    script = sys.modules.get("tests.integration.integration_test")
    if script is not None:
        script.bootstrap_servers = os.environ["BROKERS"]  # type: ignore[attr-defined]
        script.topic = os.environ["UPSTREAM_TOPIC"]  # type: ignore[attr-defined]
        producer = confluent_kafka.Producer({"bootstrap.servers": os.environ["BROKERS"]})
        for number in range(RECORDS):
            producer.produce(os.environ["UPSTREAM_TOPIC"], b"x", partition=number % 3)
        producer.flush(60)


def pytest_runtest_logstart(nodeid: str) -> None:
    """Record that a test begins, and begin to measure its time."""
    _record(nodeid, "started", "")
    # Not a timeout of Python's: it would not end a call of librdkafka's.
    faulthandler.dump_traceback_later(float(os.environ["UPSTREAM_SECONDS"]), exit=True)


def pytest_runtest_logfinish() -> None:
    """Stop measuring the time of a test."""
    faulthandler.cancel_dump_traceback_later()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record the outcome of a test: passed, failed or skipped, with the first line of an error."""
    if report.passed and report.when != "call":
        return
    reason = ""
    if not report.passed:
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        errors = [line for line in text.splitlines() if line.startswith("E ")] or [text]
        reason = errors[0].removeprefix("E ").strip()
    _record(report.nodeid, report.outcome, reason)


def _record(test: str, kind: str, reason: str) -> None:
    with open(os.environ["UPSTREAM_RESULTS"], "a") as results:
        results.write(json.dumps([test, kind, reason]) + "\n")
