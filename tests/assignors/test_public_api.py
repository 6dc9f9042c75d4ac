"""The names and signatures that users of the assignors rely on, and the snippets of PAGES."""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import assignors
from assignors import LeaderRackAwareCooperativeSticky, Member

PAGES = ("README.md", "docs/reference/assignors.md")
TEXT = "\n".join((Path(__file__).parents[2] / name).read_text(encoding="utf-8") for name in PAGES)
SNIPPETS = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
STICKY_OPTIONS = {"rack": None, "weights": None, "max_imbalance": 0.0}
RANGE_OPTIONS = {**STICKY_OPTIONS, "co_partitioned": True}


def test_the_fields_of_a_member_and_of_a_plan() -> None:
    member = Member(
        id="m-1",
        topics=frozenset({"orders"}),
        rack="a",
        instance_id=None,
        owned={"orders": [0, 3]},
        generation=7,
    )
    assert Member("m-1", frozenset()) == Member("m-1", frozenset(), None, None, {}, -1)
    plan = LeaderRackAwareCooperativeSticky().assign([member], {"orders": ["a", "b", None]})
    assert plan.partitions == {"m-1": {"orders": [0, 1, 2]}}
    assert (plan.off_rack, plan.moved, plan.loads) == (1, 0, {"m-1": 3})
    assert (plan.optimum, plan.crossings) == (1, (1,))


@pytest.mark.parametrize("adapter", ["kafka_python", "aiokafka"])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("LeaderRackAwareRangeAssignor", RANGE_OPTIONS),
        ("LeaderRackAwareCooperativeStickyAssignor", STICKY_OPTIONS),
    ],
)
def test_signatures_of_the_adapters_assignors(
    adapter: str, name: str, options: dict[str, object]
) -> None:
    pytest.importorskip({"kafka_python": "kafka"}.get(adapter, adapter))
    assignor = getattr(importlib.import_module(f"assignors.{adapter}"), name)
    parameters = inspect.signature(assignor).parameters
    defaults = {option: parameters[option].default for option in options}
    assert next(iter(parameters)) == "rack"
    assert defaults == options
    assert isinstance(parameters["refresh"].default, assignors.RefreshPolicy)


# The snippets of PAGES. Host names in them do not resolve; no connection is needed.


def snippet_with(text: str) -> str:
    """Return the only snippet that contains ``text``, with an address instead of a host name."""
    snippet: str
    (snippet,) = [each for each in SNIPPETS if text in each]
    return snippet.replace("kafka:9092", "127.0.0.1:1")


def run(code: str, **names: object) -> dict[str, Any]:
    """Execute ``code`` and return its variables."""
    variables: dict[str, Any] = dict(names)
    exec(compile(code, "snippet", "exec"), variables)
    return variables


def test_the_snippet_for_any_client() -> None:
    code = snippet_with("from assignors import LeaderRackAwareCooperativeSticky, Member")
    variables = run(code)
    results = re.findall(r"^(plan\.\w+)  # (.*)$", code, re.MULTILINE)
    assert [expression for expression, _ in results] == ["plan.partitions", "plan.off_rack"]
    for expression, expected in results:
        assert eval(expression, variables) == ast.literal_eval(expected)


def test_the_snippet_for_kafka_python(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = pytest.importorskip("kafka")
    offline = partial(kafka.KafkaConsumer, api_version=(3, 9))
    monkeypatch.setattr(kafka, "KafkaConsumer", offline)
    consumer = run(snippet_with("from assignors.kafka_python import"))["consumer"]
    try:
        assert consumer.subscription() == {"orders"}
    finally:
        consumer.close(timeout_ms=0)


def test_the_snippet_for_confluent() -> None:
    pytest.importorskip("confluent_kafka")
    variables = run(snippet_with("from assignors.confluent import"))
    variables["consumer"].close()


def test_the_snippet_for_aiokafka() -> None:
    pytest.importorskip("aiokafka")
    code = snippet_with("from assignors.aiokafka import")

    async def construct() -> dict[str, Any]:
        return run(code)

    assert asyncio.run(construct())["consumer"].subscription() == {"orders"}
