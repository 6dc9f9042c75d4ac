"""The JSON that kafka-reassign-partitions reads and prints.

::

    {"version": 1,
     "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 3],
                     "log_dirs": ["any", "any", "any"]}]}

Kafka's own parser passes over what it does not know. This one does not: a file edited by hand
whose key is misspelt must not be carried out without what the key was to say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from placement_core.cluster import TopicPartition
from placement_core.errors import InvalidLayoutError

VERSION = 1
ANY_LOG_DIR = "any"
_NEEDED = {"topic", "partition", "replicas"}


def to_kafka_json(replicas: Mapping[TopicPartition, tuple[int, ...]]) -> str:
    """The text for these replica lists, in order of topic and partition, a line each."""
    rows = [
        json.dumps({"topic": topic, "partition": partition, "replicas": list(brokers)})
        for (topic, partition), brokers in sorted(replicas.items())
    ]
    body = ",\n".join(rows)
    return f'{{"version": {VERSION}, "partitions": [\n{body}\n]}}\n'


def from_kafka_json(text: str) -> dict[TopicPartition, tuple[int, ...]]:
    """The replica lists in such a text, in its order.

    ``log_dirs`` may say "any" only: rackward does not move replicas between directories.
    Raises InvalidLayoutError, which names the place, for anything that is not exactly this form.
    """
    try:
        found = json.loads(text, object_pairs_hook=_without_repeats)
    except json.JSONDecodeError as error:
        raise InvalidLayoutError(
            f"not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
        ) from error
    except RecursionError as error:
        raise InvalidLayoutError("not a reassignment: nested too deeply") from error
    _keys("the reassignment", found, needed={"version", "partitions"})
    version, rows = found["version"], found["partitions"]
    if version != VERSION or not _is_int(version):
        raise InvalidLayoutError(f"version is {_shown(version)}: only version {VERSION} is known")
    if not isinstance(rows, list):
        raise InvalidLayoutError(f"partitions is {_shown(rows)}: a list is needed")
    replicas: dict[TopicPartition, tuple[int, ...]] = {}
    for number, row in enumerate(rows):
        partition, brokers = _row(f"partitions[{number}]", row)
        if partition in replicas:
            raise InvalidLayoutError(
                f"partitions[{number}]: {partition.topic}-{partition.partition} comes twice: "
                "keep one of the two"
            )
        replicas[partition] = brokers
    return replicas


def _row(where: str, row: object) -> tuple[TopicPartition, tuple[int, ...]]:
    _keys(where, row, needed=_NEEDED, may={"log_dirs"})
    assert isinstance(row, dict)
    topic, partition, brokers = row["topic"], row["partition"], row["replicas"]
    if not isinstance(topic, str) or not topic:
        raise InvalidLayoutError(f"{where}: topic is {_shown(topic)}: a name is needed")
    if not _is_int(partition) or partition < 0:
        raise InvalidLayoutError(
            f"{where}: partition is {_shown(partition)}: a whole number from 0 is needed"
        )
    if not isinstance(brokers, list) or not brokers:
        raise InvalidLayoutError(
            f"{where}: replicas is {_shown(brokers)}: a list of broker ids is needed"
        )
    for broker in brokers:
        if not _is_int(broker) or broker < 0:
            raise InvalidLayoutError(f"{where}: replicas holds {_shown(broker)}: no broker id")
    if len(set(brokers)) < len(brokers):
        raise InvalidLayoutError(f"{where}: replicas names a broker twice: {_shown(brokers)}")
    directories = row.get("log_dirs", [ANY_LOG_DIR] * len(brokers))
    if directories != [ANY_LOG_DIR] * len(brokers):
        raise InvalidLayoutError(
            f'{where}: log_dirs is {_shown(directories)}: leave it out, or say "any" once for each '
            "replica (replicas are not moved between directories)"
        )
    return TopicPartition(topic, partition), tuple(brokers)


def _keys(where: str, found: object, needed: set[str], may: set[str] | None = None) -> None:
    if not isinstance(found, dict):
        raise InvalidLayoutError(f"{where} is {_shown(found)}: an object is needed")
    if missing := sorted(needed - found.keys()):
        raise InvalidLayoutError(f"{where} lacks {', '.join(missing)}")
    if strange := sorted(found.keys() - needed - (may or set())):
        raise InvalidLayoutError(
            f"{where} has the unknown key {strange[0]!r}: remove or correct it"
        )


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise InvalidLayoutError(f"the key {key!r} comes twice in one object: keep one")
        found[key] = value
    return found


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: object) -> str:
    """The value as in the text, cut short."""
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
