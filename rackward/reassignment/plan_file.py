"""The plan file: JSON with a line for each broker, topic and partition, in a fixed order.

::

    {"rackward_plan": 1,
     "kind": "placement",
     "cluster_id": "r-6612PFGVzZANJqWRf5Kw",
     "created_at": "2026-11-21T13:40:00Z",
     "options": {"replication_factor": 3, "topics": "orders"},
     "rack_source": "metadata",
     "limits": {"partitions": 100, "bytes": null, "throttle": 50000000},
     "expected": {"copies": 2, "bytes": 80115200, "leader_changes": 0},
     "localities": [],
     "brokers": [
      {"broker": 1, "rack": "a", "live": true, "replicas": [1, 1], "leaders": [1, 1]}],
     "topics": [
      {"topic": "orders", "id": "..."}],
     "partitions": [
      {"topic": "orders", "partition": 0, "before": [1], "after": [1, 3, 5], "leader": 1,
       "bytes": 40057600}]}

``replicas`` and (preferred) ``leaders`` of a broker are those before and after the plan. What is
carried out is ``partitions``, which may be edited by hand; ``expected`` and the brokers' figures
are for information. Because of such edits the reader is strict: a field that is missing, unknown,
repeated or of the wrong type is an error, which names the file and the field.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from placement_core import InvalidLayoutError, RackwardError, TopicPartition
from placement_core.cluster import Load, Move
from placement_core.leaders import Locality
from placement_core.reassignment import from_kafka_json
from rack_traffic.atomic_write import write_atomically
from rackward.reassignment.plan import (
    BatchLimits,
    Plan,
    PlanKind,
    RackSource,
    bytes_to_copy,
    count_copies,
    count_leader_changes,
)

STDIO = "-"
"""The path that stands for standard input and standard output."""
MAX_BYTES = 256 << 20
"""Twice the size of a plan for a million partitions."""
VERSION = 1
_VERSION_FIELD = "rackward_plan"
_MAX_SHOWN = 60


class PlanFileError(RackwardError, ValueError):
    """A plan file cannot be read, written or used; the message names the file and the field."""


# The fields of the file.

Name = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0)]
Limit = Annotated[int, Meta(ge=1)]
Brokers = Annotated[tuple[Count, ...], Meta(min_length=1)]


class _Struct(msgspec.Struct, forbid_unknown_fields=True):
    pass


class _Limits(_Struct):
    partitions: Limit | None
    bytes: Limit | None
    throttle: Limit | None


class _Expected(_Struct):
    copies: Count
    bytes: Count | None
    leader_changes: Count


class _LocalityRow(_Struct):
    name: Name
    partitions: Count
    before: Count
    after: Count


class _BrokerRow(_Struct):
    broker: Count
    rack: Name | None
    live: bool
    replicas: tuple[Count, Count]
    leaders: tuple[Count, Count]


class _TopicRow(_Struct):
    topic: Name
    id: Name | None


class _PartitionRow(_Struct):
    topic: Name
    partition: Count
    before: Brokers
    after: Brokers
    leader: Count | None
    bytes: Count | None


class _PlanFile(_Struct):
    rackward_plan: int
    kind: PlanKind
    cluster_id: Name | None
    created_at: Name
    options: dict[str, Any]
    rack_source: RackSource
    limits: _Limits
    expected: _Expected
    localities: tuple[_LocalityRow, ...]
    brokers: tuple[_BrokerRow, ...]
    topics: tuple[_TopicRow, ...]
    partitions: tuple[_PartitionRow, ...]


# Plans as text.


def format_plan(plan: Plan) -> str:
    """Return the plan as text; equal plans give the same text."""
    file = _PlanFile(
        rackward_plan=VERSION,
        kind=plan.kind,
        cluster_id=plan.cluster_id,
        created_at=plan.created_at,
        options=dict(plan.options),
        rack_source=plan.rack_source,
        limits=_Limits(plan.limits.partitions, plan.limits.bytes, plan.limits.throttle),
        expected=_Expected(
            count_copies(plan.moves),
            bytes_to_copy(plan.moves, plan.sizes),
            count_leader_changes(plan.moves),
        ),
        localities=tuple(
            _LocalityRow(each.name, each.partitions, each.before, each.after)
            for each in plan.localities
        ),
        brokers=tuple(
            _BrokerRow(
                broker,
                plan.brokers.get(broker),
                broker in plan.brokers,
                (load.replicas_before, load.replicas_after),
                (load.leaders_before, load.leaders_after),
            )
            for broker, load in sorted(plan.loads.items())
        ),
        topics=tuple(_TopicRow(name, id) for name, id in sorted(plan.topic_ids.items())),
        partitions=tuple(
            _PartitionRow(
                *move.partition,
                move.before,
                move.after,
                plan.leaders.get(move.partition),
                plan.sizes.get(move.partition),
            )
            for move in sorted(plan.moves, key=lambda move: move.partition)
        ),
    )
    fields = msgspec.to_builtins(file)
    return "{" + ",\n ".join(f'"{name}": {_lines(each)}' for name, each in fields.items()) + "}\n"


def parse_plan(source: str, text: str) -> Plan:
    """Return the plan in ``text``. Raises PlanFileError, which names ``source`` and the field."""
    document = _parse_json(source, text)
    _check_version(source, document)
    try:
        file = msgspec.convert(document, _PlanFile)
    except msgspec.ValidationError as error:
        raise PlanFileError(f"{source}: {_explain(error, document)}") from error
    live = {row.broker: row.rack for row in file.brokers if row.live}
    topic_ids = {row.topic: row.id for row in file.topics}
    _check_unique(source, "brokers", "broker", [row.broker for row in file.brokers])
    _check_unique(source, "topics", "topic", [row.topic for row in file.topics])
    _check_unique(
        source,
        "partitions",
        "partition",
        [f"{row.topic}-{row.partition}" for row in file.partitions],
    )
    for number, row in enumerate(file.partitions):
        if problem := _partition_problem(row, file.kind, live, topic_ids):
            raise PlanFileError(f"{source}: partitions[{number}].{problem}")
    rows = {TopicPartition(row.topic, row.partition): row for row in file.partitions}
    return Plan(
        kind=file.kind,
        cluster_id=file.cluster_id,
        created_at=file.created_at,
        options=file.options,
        rack_source=file.rack_source,
        brokers=live,
        topic_ids={name: topic_ids[name] for name in sorted({tp.topic for tp in rows})},
        moves=tuple(Move(tp, row.before, row.after) for tp, row in sorted(rows.items())),
        leaders={tp: row.leader for tp, row in rows.items() if row.leader is not None},
        sizes={tp: row.bytes for tp, row in rows.items() if row.bytes is not None},
        loads={
            row.broker: Load(
                leaders_before=row.leaders[0],
                leaders_after=row.leaders[1],
                replicas_before=row.replicas[0],
                replicas_after=row.replicas[1],
            )
            for row in file.brokers
        },
        limits=BatchLimits(file.limits.partitions, file.limits.bytes, file.limits.throttle),
        localities=tuple(
            Locality(row.name, row.partitions, row.before, row.after) for row in file.localities
        ),
    )


def _lines(value: object) -> str:
    """Return JSON with a line for each object of a list."""
    if not isinstance(value, tuple):
        return _json(value)
    return "[" + ",".join(f"\n  {_json(row)}" for row in value) + "]"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


# What can be wrong with a plan's text.


def _parse_json(source: str, text: str) -> object:
    def object_of(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            names = [name for name, _ in pairs]
            repeated = next(name for name in names if names.count(name) > 1)
            raise PlanFileError(f"{source}: the field {repeated} is repeated: remove one")
        return fields

    def constant(name: str) -> object:
        raise PlanFileError(f"{source}: {name} is not a number that a plan may contain")

    if not text.strip():
        raise PlanFileError(f"{source} is empty: give a plan")
    try:
        return json.loads(text, object_pairs_hook=object_of, parse_constant=constant)
    except json.JSONDecodeError as error:
        truncated = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        raise PlanFileError(
            f"{source} is not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
            + (", where the file ends: it is truncated, write it again" if truncated else "")
        ) from error
    except PlanFileError:
        raise
    except (RecursionError, ValueError) as error:
        raise PlanFileError(
            f"{source} is not a plan: its JSON is nested too deeply, or has a number that is too "
            "long"
        ) from error


def _check_version(source: str, document: object) -> None:
    if not isinstance(document, dict):
        raise PlanFileError(f"{source} is {_shown(document)}: expected an object")
    version = document.get(_VERSION_FIELD)
    if version is None:
        raise PlanFileError(
            f"{source} is not a plan of rackward: {_VERSION_FIELD} is missing (give Kafka's own "
            "JSON with --reassignment-json-file)"
        )
    if version != VERSION or isinstance(version, bool):
        raise PlanFileError(
            f"{source}: {_VERSION_FIELD} is {_shown(version)}, and this rackward reads version "
            f"{VERSION}: make a new plan"
        )


_CHOICES: Mapping[str, Iterable[str]] = {"kind": PlanKind, "rack_source": RackSource}
_TYPES = {
    "int": "an integer",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}


def _explain(error: msgspec.ValidationError, document: Any) -> str:
    """Return the text of a ValidationError with the path and the value of the field.

    msgspec's texts are, for example, "Object missing required field `before` - at
    `$.partitions[3]`" and "Expected `int | null`, got `str` - at `$.limits.throttle`".
    """
    problem, _, path = str(error).partition(" - at `$")
    path = path.removesuffix("`").removeprefix(".")
    if field := re.fullmatch("Object (missing required|contains unknown) field `(.*)`", problem):
        name = f"{path}.{field[2]}" if path else field[2]
        if field[1] == "missing required":
            return f"{name} is missing"
        return f"{name} is not a field of a plan: remove or correct it"
    value = document
    for part in re.findall(r"[^.\[\]]+", path):
        value = value[int(part) if isinstance(value, list) else part]
    if path in _CHOICES:
        expected = f"expected one of {', '.join(_CHOICES[path])}"
    else:
        expected = re.sub(
            "`(.*?)`",
            lambda types: " or ".join(_TYPES.get(each, each) for each in types[1].split(" | ")),
            re.sub(", got .*", "", problem).replace("Expected", "expected"),
        )
    return f"{path} is {_shown(value)}: {expected}"


def _check_unique(source: str, rows: str, field: str, values: list[Any]) -> None:
    seen: set[Any] = set()
    for number, value in enumerate(values):
        if value in seen:
            raise PlanFileError(
                f"{source}: {rows}[{number}].{field} is {value} again: remove one of the two"
            )
        seen.add(value)


def _partition_problem(
    row: _PartitionRow,
    kind: PlanKind,
    live: Mapping[int, str | None],
    topic_ids: Mapping[str, str | None],
) -> str | None:
    for name, brokers in (("before", row.before), ("after", row.after)):
        if len(set(brokers)) < len(brokers):
            return f"{name} is {list(brokers)}: a broker is repeated"
    if row.topic not in topic_ids:
        return f"topic is {row.topic}, which is not in topics: correct it"
    if unknown := [broker for broker in row.after if broker not in live]:
        return f"after has broker {unknown[0]}, which is not a live broker in brokers"
    if kind is PlanKind.LEADERS and set(row.before) != set(row.after):
        return (
            f"after is {list(row.after)}: a plan of leaders has to keep the brokers of before, "
            f"{list(row.before)}"
        )
    return None


def _shown(value: object) -> str:
    text = _json(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."


# Files.


def load_plan(path: str, kind: PlanKind, verb: str = "apply") -> Plan:
    """Read the plan at ``path`` (``-``: standard input). Raises PlanFileError.

    ``verb`` is what the user asked for, which another command does for another kind of plan.
    """
    plan = parse_plan(display_name(path), read_text(path))
    if plan.kind is not kind:
        raise PlanFileError(
            f"{display_name(path)} is a plan of kind {plan.kind.value}: use rackward "
            f"{plan.kind.value} {verb}"
        )
    return plan


def load_kafka_json(path: str) -> dict[TopicPartition, tuple[int, ...]]:
    """Read the replica lists in a file of ``kafka-reassign-partitions``. Raises PlanFileError."""
    text = read_text(path)
    try:
        return from_kafka_json(text)
    except InvalidLayoutError as error:
        if f'"{_VERSION_FIELD}"' in text:
            raise PlanFileError(
                f"{display_name(path)} is a plan of rackward: give it without "
                "--reassignment-json-file"
            ) from error
        raise PlanFileError(f"{display_name(path)}: {error}") from error


def read_text(path: str) -> str:
    """Return the text of the file, or of standard input. Raises PlanFileError."""
    try:
        if path == STDIO:
            content = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise PlanFileError(f"{path} cannot be read: {error.strerror}") from error
    name = display_name(path)
    if len(content) > MAX_BYTES:
        raise PlanFileError(f"{name} is larger than {MAX_BYTES >> 20} MB: it is not a plan")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PlanFileError(f"{name} is not UTF-8: it is not a plan") from error


def write_text(path: str, text: str) -> None:
    """Write the file, replacing an older one atomically. Raises PlanFileError."""
    try:
        with write_atomically(Path(path)) as file:
            file.write(text.encode())
    except OSError as error:
        raise PlanFileError(f"{path} cannot be written: {error.strerror}") from error


def display_name(path: str) -> str:
    """Return the path for messages; ``-`` is "standard input"."""
    return "standard input" if path == STDIO else path
