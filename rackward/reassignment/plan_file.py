"""The plan file: JSON with a line for each broker, topic and partition, in a fixed order.

::

    {"rackward_plan": 1,
     "kind": "placement",
     "cluster": "r-6612PFGVzZANJqWRf5Kw",
     "made": "2026-11-21T13:40:00Z",
     "asked": {"replication_factor": 3, "topics": ["orders"]},
     "racks_from": "metadata",
     "pace": {"partitions": 100, "bytes": null, "throttle": 50000000},
     "expected": {"copies": 2, "bytes": 80115200, "leader_changes": 0},
     "localities": [],
     "brokers": [
      {"broker": 1, "rack": "a", "live": true, "replicas": [1, 1], "leaders": [1, 1]}],
     "topics": [
      {"topic": "orders", "id": "..."}],
     "partitions": [
      {"topic": "orders", "partition": 0, "before": [1], "after": [1, 3, 5], "leader": 1,
       "bytes": 40057600}]}

``replicas`` and ``leaders`` (preferred ones) are those before and after. ``expected`` and the
loads are for reading: what is carried out is ``partitions``, which may be edited; the figures
that are shown before anything is changed are counted anew.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from placement_core import RackwardError, TopicPartition
from placement_core.cluster import Move
from placement_core.leaders import Locality
from rackward.reassignment.plan import Load, Pace, Plan, PlanKind, PlannedMove, RacksFrom

# ---- Why a plan cannot be used.


class PlanFileError(RackwardError, ValueError):
    """A plan file is not what it should be; the message names the file and the field."""


class StalePlanError(RackwardError):
    """The cluster is not, or no longer, the one that the plan was made against.

    ``changes`` has everything that was found, a line each; the message has the first.
    """

    def __init__(self, message: str, changes: tuple[str, ...] = ()) -> None:
        self.changes = changes
        super().__init__(message)


# ---- JSON taken at its word: every field is there, is of its kind, and is known.
#
# A plan may be edited by hand. What is misspelt, left out or cut off must not be carried out
# without what it was to say, so every reader here names the place where it stumbles.

Value = TypeVar("Value")
_MOST_SHOWN = 60


def parse_json(source: str, text: str) -> object:
    """The JSON of ``text``, which ``source`` names in errors. Raises PlanFileError."""
    if not text.strip():
        raise PlanFileError(f"{source} is empty: a plan is needed")
    try:
        return json.loads(
            text,
            object_pairs_hook=lambda pairs: _object(source, pairs),
            parse_constant=lambda name: _refuse(source, name),
        )
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text.rstrip())
        raise PlanFileError(
            f"{source} is not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
            + (", where it ends: it was cut off; write it again" if cut else "")
        ) from error
    except RecursionError as error:
        raise PlanFileError(f"{source} is no plan: it is nested too deeply") from error


class Fields:
    """One object of a plan, field by field; ``done`` says that there are no others."""

    def __init__(self, source: str, where: str, found: object) -> None:
        self._source, self._where = source, where
        if not isinstance(found, dict):
            raise self.fault("", f"is {shown(found)}: an object is needed")
        self._left: dict[str, Any] = dict(found)

    def take(self, name: str, kind: str, check: Callable[[Any], bool]) -> Any:
        """The field's value. Raises PlanFileError where it is absent or ``check`` says no."""
        if name not in self._left:
            raise self.fault(name, "is missing")
        value = self._left.pop(name)
        if not check(value):
            raise self.fault(name, f"is {shown(value)}: {kind} is needed")
        return value

    def text(self, name: str) -> str:
        """A text that is not empty."""
        found: str = self.take(name, "a text", is_text)
        return found

    def text_or_none(self, name: str) -> str | None:
        """A text that is not empty, or null."""
        found: str | None = self.take(
            name,
            "a text or null",
            lambda value: value is None or is_text(value),
        )
        return found

    def count(self, name: str) -> int:
        """A whole number from 0."""
        found: int = self.take(name, "a whole number from 0", is_count)
        return found

    def count_or_none(self, name: str, least: int = 0) -> int | None:
        """A whole number from ``least``, or null."""
        found: int | None = self.take(
            name,
            f"a whole number from {least}, or null,",
            lambda value: value is None or (is_count(value) and value >= least),
        )
        return found

    def member(self, name: str, kinds: type[Value]) -> Value:
        """One of the values of an enumeration."""
        known = [each.value for each in kinds]  # type: ignore[attr-defined]
        value = self.take(name, f"one of {', '.join(known)}", lambda value: value in known)
        return kinds(value)  # type: ignore[call-arg]

    def brokers(self, name: str) -> tuple[int, ...]:
        """Broker ids, at least one and each once."""
        found = self.take(
            name,
            "a list of broker ids",
            lambda value: isinstance(value, list) and bool(value) and all(map(is_count, value)),
        )
        if len(set(found)) < len(found):
            raise self.fault(name, f"names a broker twice: {shown(found)}")
        return tuple(found)

    def mapping(self, name: str) -> dict[str, Any]:
        """An object whose keys are not prescribed."""
        found: dict[str, Any] = self.take(name, "an object", lambda value: isinstance(value, dict))
        return found

    def object(self, name: str) -> Fields:
        """An object with fields of its own."""
        return Fields(self._source, self._path(name), self.take(name, "an object", _anything))

    def rows(self, name: str) -> Iterator[Fields]:
        """A list of objects."""
        found = self.take(name, "a list", lambda value: isinstance(value, list))
        for number, row in enumerate(found):
            yield Fields(self._source, f"{self._path(name)}[{number}]", row)

    def done(self) -> None:
        """Raise PlanFileError where the object has fields that nobody took."""
        for name in sorted(self._left):
            raise self.fault(name, "is not known: remove or correct it")

    def fault(self, name: str, problem: str) -> PlanFileError:
        """The error that says what is wrong with a field ("": with the object itself)."""
        place = self._path(name) if name else self._where
        return PlanFileError(f"{self._source}: {place or 'the plan'} {problem}")

    def _path(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name


def is_count(value: object) -> bool:
    """A whole number from 0, and not a truth value."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_text(value: object) -> bool:
    """A text that is not empty."""
    return isinstance(value, str) and bool(value)


def shown(value: object) -> str:
    """The value as in the file, cut short."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 3]}..."


def _anything(_value: object) -> bool:
    return True


def _object(source: str, pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise PlanFileError(f"{source}: the field {key} comes twice in one object: keep one")
        found[key] = value
    return found


def _refuse(source: str, name: str) -> None:
    raise PlanFileError(f"{source}: {name} is no number that a plan may hold")


VERSION = 1
_TITLE = "rackward_plan"


def to_text(plan: Plan) -> str:
    """The plan as text; the same plan gives the same text."""
    head = {
        _TITLE: VERSION,
        "kind": plan.kind.value,
        "cluster": plan.cluster_id,
        "made": plan.made,
        "asked": dict(plan.asked),
        "racks_from": plan.racks_from.value,
        "pace": {
            "partitions": plan.pace.partitions,
            "bytes": plan.pace.bytes,
            "throttle": plan.pace.throttle,
        },
        "expected": {
            "copies": plan.copies,
            "bytes": plan.bytes_to_copy,
            "leader_changes": plan.leader_changes,
        },
    }
    lines = [f'"{name}": {_json(value)}' for name, value in head.items()]
    lines.append(_rows("localities", map(_locality_row, plan.localities)))
    lines.append(_rows("brokers", _broker_rows(plan)))
    lines.append(_rows("topics", _topic_rows(plan)))
    moves = sorted(plan.moves, key=lambda each: each.move.partition)
    lines.append(_rows("partitions", map(_move_row, moves)))
    return "{" + ",\n ".join(lines) + "}\n"


def from_text(source: str, text: str) -> Plan:
    """The plan that ``text`` is, checked for itself; ``source`` names it in errors.

    Raises PlanFileError, which names the field.
    """
    fields = Fields(source, "", parse_json(source, text))
    _check_title(source, fields)
    kind = fields.member("kind", PlanKind)
    cluster_id = fields.text_or_none("cluster")
    made, asked = fields.text("made"), fields.mapping("asked")
    racks_from = fields.member("racks_from", RacksFrom)
    pace = _pace(fields.object("pace"))
    expected = fields.object("expected")
    expected.count("copies"), expected.count_or_none("bytes"), expected.count("leader_changes")
    expected.done()
    localities = tuple(_locality(row) for row in fields.rows("localities"))
    brokers, before, after = _brokers(fields.rows("brokers"))
    topic_ids = _topics(fields.rows("topics"))
    moves = tuple(_moves(fields.rows("partitions"), kind, brokers, topic_ids))
    fields.done()
    used = {each.move.partition.topic for each in moves}
    return Plan(
        kind=kind,
        cluster_id=cluster_id,
        made=made,
        asked=asked,
        racks_from=racks_from,
        brokers=brokers,
        topic_ids={name: topic_ids[name] for name in sorted(used)},
        moves=tuple(sorted(moves, key=lambda each: each.move.partition)),
        before=before,
        after=after,
        pace=pace,
        localities=localities,
    )


def _check_title(source: str, fields: Fields) -> None:
    try:
        version = fields.take(_TITLE, "", lambda _: True)
    except PlanFileError:
        raise PlanFileError(
            f"{source} is no plan of rackward's: {_TITLE} is missing (Kafka's own JSON is given "
            "with --reassignment-json-file)"
        ) from None
    if version != VERSION or isinstance(version, bool):
        raise fields.fault(
            _TITLE, f"is {_json(version)}, and only version {VERSION} is known: plan again"
        )


def _pace(fields: Fields) -> Pace:
    found = Pace(
        fields.count_or_none("partitions", 1),
        fields.count_or_none("bytes", 1),
        fields.count_or_none("throttle", 1),
    )
    fields.done()
    return found


def _broker_rows(plan: Plan) -> Iterable[dict[str, object]]:
    for broker in sorted({*plan.brokers, *plan.before, *plan.after}):
        loads = plan.before.get(broker, Load()), plan.after.get(broker, Load())
        yield {
            "broker": broker,
            "rack": plan.brokers.get(broker),
            "live": broker in plan.brokers,
            "replicas": [load.replicas for load in loads],
            "leaders": [load.leaders for load in loads],
        }


def _brokers(
    rows: Iterable[Fields],
) -> tuple[dict[int, str | None], dict[int, Load], dict[int, Load]]:
    brokers: dict[int, str | None] = {}
    before: dict[int, Load] = {}
    after: dict[int, Load] = {}
    for row in rows:
        broker, rack = row.count("broker"), row.text_or_none("rack")
        if broker in before:
            raise row.fault("broker", f"is {broker} again: keep one of the two")
        if row.take("live", "true or false", lambda value: isinstance(value, bool)):
            brokers[broker] = rack
        pair = "a pair of whole numbers"
        replicas = row.take("replicas", pair, _is_pair)
        leaders = row.take("leaders", pair, _is_pair)
        row.done()
        before[broker], after[broker] = (
            Load(held, led) for held, led in zip(replicas, leaders, strict=True)
        )
    return brokers, before, after


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(is_count, value))


def _topic_rows(plan: Plan) -> Iterable[dict[str, object]]:
    for name, found in sorted(plan.topic_ids.items()):
        yield {"topic": name, "id": found}


def _topics(rows: Iterable[Fields]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for row in rows:
        name = row.text("topic")
        if name in found:
            raise row.fault("topic", f"is {name} again: keep one of the two")
        found[name] = row.text_or_none("id")
        row.done()
    return found


def _move_row(planned: PlannedMove) -> dict[str, object]:
    (topic, partition), move = planned.move.partition, planned.move
    return {
        "topic": topic,
        "partition": partition,
        "before": list(move.before),
        "after": list(move.after),
        "leader": planned.leader,
        "bytes": planned.bytes,
    }


def _moves(
    rows: Iterable[Fields],
    kind: PlanKind,
    brokers: dict[int, str | None],
    topics: dict[str, str | None],
) -> Iterable[PlannedMove]:
    seen: set[TopicPartition] = set()
    for row in rows:
        place = TopicPartition(row.text("topic"), row.count("partition"))
        move = Move(place, row.brokers("before"), row.brokers("after"))
        planned = PlannedMove(move, row.count_or_none("leader"), row.count_or_none("bytes"))
        row.done()
        if place in seen:
            raise row.fault(
                "partition", f"is {place.topic}-{place.partition} again: keep one of the two"
            )
        seen.add(place)
        if place.topic not in topics:
            raise row.fault("topic", f"is {place.topic}, which topics does not list: correct it")
        if unknown := [broker for broker in move.after if broker not in brokers]:
            raise row.fault(
                "after", f"names broker {unknown[0]}, which brokers does not list as live"
            )
        if kind is PlanKind.LEADERS and set(move.before) != set(move.after):
            raise row.fault(
                "after",
                f"is {_json(list(move.after))}, and a plan of leaders keeps the brokers of before, "
                f"{_json(list(move.before))}",
            )
        yield planned


def _locality_row(locality: Locality) -> dict[str, object]:
    return {
        "readers": locality.readers,
        "partitions": locality.partitions,
        "before": locality.before,
        "after": locality.after,
    }


def _locality(row: Fields) -> Locality:
    found = Locality(
        row.text("readers"), row.count("partitions"), row.count("before"), row.count("after")
    )
    row.done()
    return found


def _rows(name: str, rows: Iterable[dict[str, object]]) -> str:
    lines = [_json(row) for row in rows]
    return f'"{name}": [' + "".join(f"\n  {line}," for line in lines).removesuffix(",") + "]"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


# ---- Plans in files, and over pipes.

STANDARD = "-"
"""Stands for standard input, or standard output."""
MOST_BYTES = 256 << 20
"""A million partitions take half of it; something else was named."""


def read_text(path: str) -> str:
    """The text of the file, or of standard input. Raises PlanFileError."""
    try:
        if path == STANDARD:
            found = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                found = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise PlanFileError(f"{path} cannot be read: {error.strerror}") from error
    if len(found) > MOST_BYTES:
        raise PlanFileError(f"{name_of(path)} has more than {MOST_BYTES >> 20} MB: it is no plan")
    try:
        return found.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PlanFileError(f"{name_of(path)} is not UTF-8: it is no plan") from error


def write_text(path: Path, text: str) -> None:
    """Write the file whole or not at all, over an old one. Raises PlanFileError."""
    folder = path.absolute().parent
    try:
        handle, scratch = tempfile.mkstemp(prefix=f".{path.name}-", dir=folder)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            # Made for its owner alone; a plan is for whoever may read files here.
            Path(scratch).chmod(0o666 & ~_umask())
            Path(scratch).replace(path)
        except BaseException:
            Path(scratch).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise PlanFileError(f"{path} cannot be written: {error.strerror}") from error


def name_of(path: str) -> str:
    """What errors call it."""
    return "standard input" if path == STANDARD else path


def _umask() -> int:
    found = os.umask(0)
    os.umask(found)
    return found
