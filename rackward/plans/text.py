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
from collections.abc import Iterable

from placement_core import TopicPartition
from placement_core.leaders import Locality
from placement_core.moves import Move
from rackward.plans.errors import PlanFileError
from rackward.plans.fields import Fields, is_count, parse_json
from rackward.plans.model import Load, Pace, Plan, PlanKind, PlannedMove, RacksFrom

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
