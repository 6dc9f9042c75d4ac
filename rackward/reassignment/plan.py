"""Plans: moves that ``placement plan`` and ``leaders plan`` propose, their cost, and their file.

The file is JSON with a line for each partition, in a fixed order::

    {"rackward_plan": 1,
     "kind": "placement",
     "cluster_id": "r-6612PFGVzZANJqWRf5Kw",
     "created_at": "2026-11-21T13:40:00Z",
     "options": {"replication_factor": 3, "topics": "orders"},
     "rack_source": "metadata",
     "limits": {"partitions": 100, "bytes": null, "throttle": 50000000},
     "racks": {"1": "a", "3": "b", "5": "c"},
     "topic_ids": {"orders": "..."},
     "partitions": [
      {"topic": "orders", "partition": 0, "before": [1], "after": [1, 3, 5], "leader": 1,
       "bytes": 40057600}],
     "localities": []}

It may be edited by hand, so the reader is strict: a field that is missing, unknown or of the wrong
type is an error, which names the file and the field. `Plan` is this file as it is read and written.
The JSON of kafka-reassign-partitions is read and written as well; Kafka's own parser ignores
unknown keys, and the one here rejects them, since a misspelt key must not be ignored.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from placement_core import ClusterView, RackwardError, TopicPartition
from placement_core.audit import audit
from placement_core.cluster import Move
from placement_core.leaders import Locality
from rack_traffic.atomic_write import write_atomically
from rackward.config_files import read_text
from rackward.kafka import ClusterState

STDIO = "-"
"""The path that stands for standard input and standard output."""
MAX_BYTES = 256 << 20
"""Twice the size of a plan for a million partitions."""

Name = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0)]
Limit = Annotated[int, Meta(ge=1)]
Brokers = Annotated[tuple[Count, ...], Meta(min_length=1)]

PlanOptions = Mapping[str, str | int | float | bool | list[str] | list[int] | dict[str, int] | None]
"""The command-line options that a plan was made with, for information; never a secret."""


class PlanFileError(RackwardError, ValueError):
    """A plan file cannot be read, written or used; the message names the file and the field."""


class PlanKind(StrEnum):
    """What a plan changes."""

    PLACEMENT = "placement"
    """The brokers of the replicas, and their order: data may be copied."""
    LEADERS = "leaders"
    """The order of replicas only: no data is copied."""


class RackSource(StrEnum):
    """Where the racks of a plan's brokers came from."""

    METADATA = "metadata"
    """The cluster's metadata: if a rack changes there, the plan is stale."""
    LOCATOR = "locator"
    """A rack locator; racks in the cluster's metadata may differ."""
    IGNORED = "ignored"
    """The plan does not depend on racks."""


class BatchLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits for carrying out a plan; None: no limit, or the command's default.

    ``partitions`` and ``bytes`` are per batch, ``throttle`` is in bytes per second and broker,
    in each direction.
    """

    partitions: Limit | None = None
    bytes: Limit | None = None
    throttle: Limit | None = None

    def with_overrides(self, overrides: BatchLimits) -> BatchLimits:
        """Return these limits, replaced by those of ``overrides`` that are set."""
        return BatchLimits(
            partitions=overrides.partitions or self.partitions,
            bytes=overrides.bytes or self.bytes,
            throttle=overrides.throttle or self.throttle,
        )


NO_LIMITS = BatchLimits()


class PlannedPartition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A partition to change: its replicas before and after, and leader and bytes if known."""

    topic: Name
    partition: Count
    before: Brokers
    after: Brokers
    leader: Count | None = None
    bytes: Count | None = None

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and number."""
        return TopicPartition(self.topic, self.partition)

    @property
    def copies(self) -> int:
        """The number of brokers that have to copy the partition."""
        return len(set(self.after) - set(self.before))


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Moves, and the cluster that they were planned for.

    cluster_id
        None if the brokers do not report one.
    created_at
        ISO 8601, in UTC.
    racks
        Rack by id of the brokers that were live, as the plan used them.
    topic_ids
        Id by name of the topics in ``partitions``. A topic that is deleted and created again has
        another id. None if the brokers do not report ids.
    localities
        Partitions that consumers read locally before and after; for plans of leaders.
    """

    rackward_plan: Literal[1] = 1
    kind: PlanKind
    cluster_id: Name | None
    created_at: Name
    options: dict[str, Any]
    rack_source: RackSource
    limits: BatchLimits = NO_LIMITS
    racks: dict[int, Name | None]
    topic_ids: dict[Name, Name | None]
    partitions: tuple[PlannedPartition, ...]
    localities: tuple[Locality, ...] = ()

    @property
    def moves(self) -> tuple[Move, ...]:
        """The partitions to change."""
        return tuple(Move(row.topic_partition, row.before, row.after) for row in self.partitions)

    @property
    def sizes(self) -> dict[TopicPartition, int]:
        """Bytes on the leader of each partition, as far as known."""
        return {row.topic_partition: row.bytes for row in self.partitions if row.bytes is not None}

    def change(self, view: ClusterView, throttle: int | None) -> PlannedChange:
        """Return the moves on ``view``, the whole cluster now, and their cost."""
        return PlannedChange(view, self.moves, self.sizes, throttle, self.localities)

    @property
    def target(self) -> dict[TopicPartition, tuple[int, ...]]:
        """The replica lists after the plan."""
        return {row.topic_partition: row.after for row in self.partitions}


def build_plan(
    kind: PlanKind,
    moves: Iterable[Move],
    state: ClusterState,
    view: ClusterView,
    *,
    created_at: str,
    options: PlanOptions,
    rack_source: RackSource,
    sizes: Mapping[TopicPartition, int],
    limits: BatchLimits,
    localities: Iterable[Locality] = (),
) -> Plan:
    """Return the plan of ``moves``.

    ``view`` is what they were planned on: ``state`` with the racks of a locator, and with
    reassignments in progress counted as completed.
    """
    moves = sorted(moves, key=lambda move: move.partition)
    return Plan(
        kind=kind,
        cluster_id=state.cluster_id,
        created_at=created_at,
        options=dict(options),
        rack_source=rack_source,
        limits=limits,
        racks=dict(view.racks()),
        topic_ids={
            topic: state.topic_ids[topic] for topic in sorted({m.partition.topic for m in moves})
        },
        partitions=planned_partitions(moves, view, sizes),
        localities=tuple(localities),
    )


def planned_partitions(
    moves: Iterable[Move], view: ClusterView, sizes: Mapping[TopicPartition, int]
) -> tuple[PlannedPartition, ...]:
    """Return the moves with what is known of their partitions."""
    return tuple(
        PlannedPartition(
            *move.partition,
            move.before,
            move.after,
            view.leader(move.partition),
            sizes.get(move.partition),
        )
        for move in moves
    )


# The cost of moves.


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """Moves on a view of the whole cluster, and their cost.

    ``sizes`` are bytes per partition on its leader, as far as known. ``throttle`` is in bytes per
    second and broker. ``topics`` are those that could change; None: all.
    """

    view: ClusterView
    moves: tuple[Move, ...]
    sizes: Mapping[TopicPartition, int]
    throttle: int | None = None
    localities: tuple[Locality, ...] = ()
    topics: frozenset[str] | None = None

    @property
    def after(self) -> ClusterView:
        """The view after the moves. Its leaders are unknown: the cluster elects them."""
        replicas = {**self.view.replicas, **{move.partition: move.after for move in self.moves}}
        return replace(self.view, replicas=replicas, leaders=None)

    @property
    def min_copy_seconds(self) -> float | None:
        """The time that copying takes at least; None without a throttle or with unknown sizes.

        The throttle applies to sending and to receiving. The first replica is taken for the leader,
        which sends.
        """
        if self.throttle is None or bytes_to_copy(self.moves, self.sizes) is None:
            return None
        sent, received = Counter[int](), Counter[int]()
        for move in self.moves:
            for broker in move.adding:
                received[broker] += self.sizes[move.partition]
                sent[move.before[0]] += self.sizes[move.partition]
        return max([*sent.values(), *received.values()], default=0) / self.throttle

    def rack_rule_violations(self) -> tuple[int, int] | None:
        """Return the partitions that break the rack rules before and after; None without racks.

        Only those of ``topics`` are counted.
        """
        before, after = (
            audit(self._of_topics(view)).figures.against_rack_rules
            for view in (self.view, self.after)
        )
        return None if before is None or after is None else (before, after)

    def _of_topics(self, view: ClusterView) -> ClusterView:
        if self.topics is None:
            return view
        replicas = {tp: row for tp, row in view.replicas.items() if tp.topic in self.topics}
        return replace(view, replicas=replicas, leaders=None)


def bytes_to_copy(moves: Iterable[Move], sizes: Mapping[TopicPartition, int]) -> int | None:
    """Return the bytes to copy; None if a size is unknown."""
    total = 0
    for move in moves:
        if move.adding:
            if move.partition not in sizes:
                return None
            total += sizes[move.partition] * len(move.adding)
    return total


# The files.

Document = TypeVar("Document")


class _KafkaPartition(msgspec.Struct, forbid_unknown_fields=True):
    topic: Name
    partition: Count
    replicas: Brokers
    # Replicas are not moved between directories.
    log_dirs: tuple[Literal["any"], ...] = ()


class _KafkaJson(msgspec.Struct, forbid_unknown_fields=True):
    version: Literal[1]
    partitions: tuple[_KafkaPartition, ...]


def format_plan(plan: Plan) -> str:
    """Return the plan as text; equal plans give the same text."""
    fields = [f'"{name}": {_lines(getattr(plan, name))}' for name in plan.__struct_fields__]
    return "{" + ",\n ".join(fields) + "}\n"


def to_kafka_json(replicas: Mapping[TopicPartition, tuple[int, ...]]) -> str:
    """Return these replica lists as kafka-reassign-partitions reads them, sorted, a line each."""
    rows = [
        {"topic": topic, "partition": partition, "replicas": brokers}
        for (topic, partition), brokers in sorted(replicas.items())
    ]
    return f'{{"version": 1, "partitions": {_lines(tuple(rows))}}}\n'


def _lines(value: object) -> str:
    """Return JSON with a line for each element of a tuple."""
    plain = msgspec.to_builtins(value)
    if not isinstance(plain, tuple):
        return json.dumps(plain, ensure_ascii=False)
    return "[" + ",".join(f"\n  {json.dumps(row, ensure_ascii=False)}" for row in plain) + "]"


def parse_plan(source: str, text: str) -> Plan:
    """Return the plan in ``text``. Raises PlanFileError, which names ``source`` and the field."""
    if '"rackward_plan"' not in text:
        raise PlanFileError(
            f"{source} is not a plan of rackward: rackward_plan is missing (give Kafka's own JSON"
            " with --reassignment-json-file)"
        )
    plan = _decode(source, text, Plan)
    _validate(source, [(row.topic_partition, row.before) for row in plan.partitions])
    _validate(source, [(row.topic_partition, row.after) for row in plan.partitions])
    for row in plan.partitions:
        problem = None
        if row.topic not in plan.topic_ids:
            problem = "is of a topic that is not in topic_ids"
        elif unknown := [broker for broker in row.after if broker not in plan.racks]:
            problem = f"is to be on broker {unknown[0]}, which is not in racks"
        elif plan.kind is PlanKind.LEADERS and set(row.before) != set(row.after):
            problem = (
                f"is to be on {list(row.after)}: a plan of leaders has to keep the brokers of"
                f" before, {list(row.before)}"
            )
        if problem is not None:
            raise PlanFileError(f"{source}: {row.topic}-{row.partition} {problem}")
    topics = {row.topic for row in plan.partitions}
    # Partitions may have been removed by hand.
    topic_ids = {topic: id for topic, id in plan.topic_ids.items() if topic in topics}
    return msgspec.structs.replace(plan, topic_ids=topic_ids)


def parse_kafka_json(source: str, text: str) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replica lists in the JSON of kafka-reassign-partitions. Raises PlanFileError."""
    if '"rackward_plan"' in text:
        raise PlanFileError(
            f"{source} is a plan of rackward: give it without --reassignment-json-file"
        )
    document = _decode(source, text, _KafkaJson)
    rows = [(TopicPartition(row.topic, row.partition), row.replicas) for row in document.partitions]
    _validate(source, rows)
    return dict(rows)


def _decode(source: str, text: str, to: type[Document]) -> Document:
    try:
        return msgspec.json.decode(text, type=to)
    except (msgspec.DecodeError, RecursionError) as error:
        raise PlanFileError(f"{source} is not valid: {error}") from error


def _validate(source: str, rows: list[tuple[TopicPartition, tuple[int, ...]]]) -> None:
    """Raise PlanFileError for a partition that is given twice, or has a broker twice."""
    seen = set()
    for (topic, number), brokers in rows:
        if (topic, number) in seen:
            raise PlanFileError(f"{source}: {topic}-{number} is given twice: remove one of the two")
        seen.add((topic, number))
        if len(set(brokers)) < len(brokers):
            raise PlanFileError(f"{source}: {topic}-{number} has a broker twice: {list(brokers)}")


def load_plan(path: str, kind: PlanKind, verb: str = "apply") -> Plan:
    """Read the plan at ``path`` (``-``: standard input). Raises ConfigError and PlanFileError.

    ``verb`` is what the user asked for, which another command does for another kind of plan.
    """
    plan = parse_plan(display_name(path), _read(path))
    if plan.kind is not kind:
        raise PlanFileError(
            f"{display_name(path)} is a plan of kind {plan.kind.value}: use rackward "
            f"{plan.kind.value} {verb}"
        )
    return plan


def load_kafka_json(path: str) -> dict[TopicPartition, tuple[int, ...]]:
    """Read a file of kafka-reassign-partitions. Raises ConfigError and PlanFileError."""
    return parse_kafka_json(display_name(path), _read(path))


def _read(path: str) -> str:
    return read_text(None if path == STDIO else Path(path), MAX_BYTES)


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
