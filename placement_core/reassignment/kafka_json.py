"""The JSON that kafka-reassign-partitions reads and prints.

::

    {"version": 1,
     "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 3],
                     "log_dirs": ["any", "any", "any"]}]}

Kafka's own parser ignores unknown keys. This one rejects them: a file that was edited by hand and
has a misspelt key must not be executed without it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from placement_core.cluster import TopicPartition
from placement_core.errors import InvalidLayoutError

VERSION = 1
ANY_LOG_DIR = "any"
_REQUIRED = {"topic", "partition", "replicas"}


def to_kafka_json(replicas: Mapping[TopicPartition, tuple[int, ...]]) -> str:
    """Return the JSON of these replica lists, one line each, by topic and partition."""
    rows = [
        json.dumps({"topic": topic, "partition": partition, "replicas": list(brokers)})
        for (topic, partition), brokers in sorted(replicas.items())
    ]
    body = ",\n".join(rows)
    return f'{{"version": {VERSION}, "partitions": [\n{body}\n]}}\n'


def from_kafka_json(text: str) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replica lists in a JSON text, in its order.

    ``log_dirs`` may only contain "any": rackward does not move replicas between directories.
    Raises InvalidLayoutError, with the position, for anything that is not exactly of this form.
    """
    try:
        document = json.loads(text, object_pairs_hook=_unique_keys)
    except json.JSONDecodeError as error:
        raise InvalidLayoutError(
            f"not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
        ) from error
    except InvalidLayoutError:
        raise
    except (RecursionError, ValueError) as error:
        raise InvalidLayoutError(
            "not a reassignment: nested too deeply, or with a number that is too long"
        ) from error
    _check_keys("the reassignment", document, required={"version", "partitions"})
    version, rows = document["version"], document["partitions"]
    if version != VERSION or not _is_int(version):
        raise InvalidLayoutError(f"version is {_quote(version)}: only version {VERSION} is known")
    if not isinstance(rows, list):
        raise InvalidLayoutError(f"partitions is {_quote(rows)}: a list is needed")
    replicas: dict[TopicPartition, tuple[int, ...]] = {}
    for number, row in enumerate(rows):
        partition, brokers = _parse_row(f"partitions[{number}]", row)
        if partition in replicas:
            raise InvalidLayoutError(
                f"partitions[{number}]: {partition.topic}-{partition.partition} is given twice: "
                "keep one of the two"
            )
        replicas[partition] = brokers
    return replicas


def _parse_row(where: str, row: object) -> tuple[TopicPartition, tuple[int, ...]]:
    _check_keys(where, row, _REQUIRED, optional={"log_dirs"})
    assert isinstance(row, dict)
    topic, partition, brokers = row["topic"], row["partition"], row["replicas"]
    if not isinstance(topic, str) or not topic:
        raise InvalidLayoutError(f"{where}: topic is {_quote(topic)}: a name is needed")
    if not _is_int(partition) or partition < 0:
        raise InvalidLayoutError(
            f"{where}: partition is {_quote(partition)}: a whole number from 0 is needed"
        )
    if not isinstance(brokers, list) or not brokers:
        raise InvalidLayoutError(
            f"{where}: replicas is {_quote(brokers)}: a list of broker ids is needed"
        )
    for broker in brokers:
        if not _is_int(broker) or broker < 0:
            raise InvalidLayoutError(
                f"{where}: replicas contains {_quote(broker)}, which is not a broker id"
            )
    if len(set(brokers)) < len(brokers):
        raise InvalidLayoutError(f"{where}: replicas names a broker twice: {_quote(brokers)}")
    directories = row.get("log_dirs", [ANY_LOG_DIR] * len(brokers))
    if directories != [ANY_LOG_DIR] * len(brokers):
        raise InvalidLayoutError(
            f'{where}: log_dirs is {_quote(directories)}: leave it out, or write "any" once for '
            "each replica (replicas are not moved between directories)"
        )
    return TopicPartition(topic, partition), tuple(brokers)


def _check_keys(
    where: str, value: object, required: set[str], optional: Collection[str] = ()
) -> None:
    """Raise InvalidLayoutError unless ``value`` is an object with these keys."""
    if not isinstance(value, dict):
        raise InvalidLayoutError(f"{where} is {_quote(value)}: an object is needed")
    if missing := sorted(required - value.keys()):
        raise InvalidLayoutError(f"{where} lacks {', '.join(missing)}: add it")
    if unknown := sorted(value.keys() - required.union(optional)):
        raise InvalidLayoutError(
            f"{where} has the unknown key {unknown[0]!r}: remove or correct it"
        )


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object's pairs as a dict; raise InvalidLayoutError for a repeated key."""
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise InvalidLayoutError(f"the key {key!r} is given twice in one object: keep one")
        result[key] = value
    return result


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _quote(value: object) -> str:
    """Return the value as JSON, at most 60 characters."""
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
