"""Writing and parsing Kafka's reassignment JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_core import TopicPartition
from placement_core.errors import InvalidLayoutError
from placement_core.reassignment import from_kafka_json, to_kafka_json

LAYOUTS = st.dictionaries(
    st.builds(TopicPartition, st.text(min_size=1, max_size=5), st.integers(0, 1 << 31)),
    st.lists(st.integers(0, 1 << 31), min_size=1, max_size=5, unique=True).map(tuple),
    max_size=10,
)


@given(LAYOUTS)
def test_json_round_trip(layout: dict[TopicPartition, tuple[int, ...]]) -> None:
    text = to_kafka_json(layout)
    assert from_kafka_json(text) == layout
    assert list(from_kafka_json(text)) == sorted(layout)
    assert json.loads(text)["version"] == 1


def test_output_of_kafka_reassign_partitions_is_parsed() -> None:
    printed = (
        '{"version":1,"partitions":[{"topic":"orders","partition":1,"replicas":[3,1],'
        '"log_dirs":["any","any"]},{"topic":"orders","partition":0,"replicas":[1]}]}'
    )
    assert from_kafka_json(printed) == {
        TopicPartition("orders", 1): (3, 1),
        TopicPartition("orders", 0): (1,),
    }


def row(**changes: object) -> str:
    fields = {"topic": "t", "partition": 0, "replicas": [1, 2], **changes}
    present = {key: value for key, value in fields.items() if value is not ...}
    return json.dumps({"version": 1, "partitions": [present]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON: Expecting value in line 1, column 1"),
        ('{"version": 1,}', "not JSON"),
        ("[" * 100_000, "not "),
        ("[]", r"the reassignment is \[\]: an object is needed"),
        ("{}", "the reassignment lacks partitions, version"),
        ('{"version": 2, "partitions": []}', "version is 2: only version 1"),
        ('{"version": true, "partitions": []}', "version is true"),
        ('{"version": 1, "partitions": {}}', "partitions is {}: a list is needed"),
        ('{"version": 1, "partitions": [], "x": 1}', "unknown key 'x'"),
        ('{"version": 1, "version": 1, "partitions": []}', "'version' is given twice"),
        ('{"version": 1, "partitions": [7]}', r"partitions\[0\] is 7: an object is needed"),
        (row(replica=[1]), r"partitions\[0\] has the unknown key 'replica'"),
        (row(replicas=...), r"partitions\[0\] lacks replicas"),
        (row(topic=""), 'topic is "": a name is needed'),
        (row(topic=3), "topic is 3"),
        (row(topic=["x" * 56]), r'topic is \["x{56}"\]: a name'),
        (row(topic=["x" * 57]), r'topic is \["x{55}\.\.\.: a name'),
        (row(partition=-1), "partition is -1"),
        (row(partition=1.0), "partition is 1.0"),
        (row(partition=True), "partition is true"),
        (row(replicas=[]), r"replicas is \[\]: a list of broker ids"),
        (row(replicas="12"), 'replicas is "12"'),
        (row(replicas=[1, -2]), "replicas contains -2, which is not a broker id"),
        (row(replicas=[1, "2"]), 'replicas contains "2"'),
        (row(replicas=[1, 1]), r"names a broker twice: \[1, 1\]"),
        (row(log_dirs=["any"]), "log_dirs is"),
        (row(log_dirs=["any", "/data"]), "not moved between directories"),
    ],
)
def test_invalid_json_is_rejected(text: str, message: str) -> None:
    with pytest.raises(InvalidLayoutError, match=message) as raised:
        from_kafka_json(text)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 200


def test_duplicate_partitions_are_rejected() -> None:
    one = {"topic": "t", "partition": 0, "replicas": [1]}
    with pytest.raises(InvalidLayoutError, match=r"partitions\[1\]: t-0 is given twice"):
        from_kafka_json(json.dumps({"version": 1, "partitions": [one, one]}))
