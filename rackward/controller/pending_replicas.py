"""What was promised to topics that were made with fewer replicas than wanted, and is to be kept.

An intent says that some partitions of a topic shall have more replicas than they could be made
with (KIP-409). Intents are records of a compacted topic, so that they outlive whoever wrote them;
the controller keeps them (:mod:`rackward.controller`).
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from assignors.connection import kafka_python_settings
from placement_core import PlacementSpec, RackwardError, TopicPartition
from placement_core.cluster import padded, without_placeholders
from placement_core.placers import MultiLevelPlacer, UnderReplicatedPlacer, place
from placement_core.under_replication import Wanted, held_by
from rackward.admin import AdminConnection, AdminError, AdminTimeoutError, ClusterState, read_state
from rackward.admin.client import CLIENT_ID, reliable_producer, translated
from rackward.admin.configs import read_topic_configs
from rackward.admin.topics import NewPartitions, await_layout, make_partitions

# ---- One intent, its record, and what all of them together want. Pure.

VERSION = 1
MOST_PARTITIONS = 1_000_000
MOST_REPLICAS = 1000


class IntentError(RackwardError, ValueError):
    """A record is no intent."""


@dataclass(frozen=True, slots=True)
class Intent:
    """Partitions of a topic that shall have ``replication_factor`` replicas and have fewer.

    ``id`` tells it from other intents of the topic. ``topic_id`` is None until the topic is
    known to have been made; until then ``layout`` (see `layout_digest`) says how one would know
    it. ``open`` are the numbers of the partitions that are still short, ascending. ``stand_ins``:
    see :class:`placement_core.under_replication.Wanted`. ``filling`` are replica lists that were
    decided on and perhaps asked for: whoever keeps the intent next asks for the same.
    """

    id: str
    topic: str
    topic_id: str | None
    replication_factor: int
    open: tuple[int, ...]
    layout: str
    stand_ins: frozenset[int] = frozenset()
    filling: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The key of its record."""
        return f"{self.topic}/{self.id}"

    @property
    def wanted(self) -> Wanted:
        """What each of its partitions shall have."""
        return Wanted(self.replication_factor, self.stand_ins)

    def record(self) -> bytes:
        """The value of its record."""
        return json.dumps(
            {
                "version": VERSION,
                "topic": self.topic,
                "topic_id": self.topic_id,
                "replication_factor": self.replication_factor,
                "open": _ranges(self.open),
                "layout": self.layout,
                "stand_ins": sorted(self.stand_ins),
                "filling": {str(number): list(row) for number, row in self.filling.items()},
            },
            separators=(",", ":"),
        ).encode()


def parse_intent(key: bytes | None, value: bytes) -> Intent:
    """The intent of a record. Raises IntentError, whatever the record holds."""
    try:
        told = (key or b"").decode()
        topic, _, number = told.rpartition("/")
        found = json.loads(value)
        if found["version"] != VERSION:
            raise IntentError(
                f"the intent {told} is of version {found['version']!r}, and this is rackward of "
                f"version {VERSION}: use a newer one"
            )
        if found["topic"] != topic or not topic or not number:
            raise ValueError("its key is another topic's")
        return Intent(
            id=number,
            topic=topic,
            topic_id=_text_or_none(found["topic_id"]),
            replication_factor=_number(found["replication_factor"], 1, MOST_REPLICAS),
            open=tuple(_numbers(found["open"])),
            layout=str(found["layout"]),
            stand_ins=frozenset(_brokers(found["stand_ins"])),
            filling={
                _number(int(place), 0, MOST_PARTITIONS): _brokers(row)
                for place, row in found["filling"].items()
            },
        )
    except IntentError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise IntentError(
            f"the record {key!r} of {len(value)} bytes is no intent ({type(error).__name__}): "
            "it is left alone; was it written by something else?"
        ) from error


def layout_digest(rows: Mapping[int, Sequence[int]]) -> str:
    """A short text that says how partitions (number to replica list) lie."""
    text = ";".join(f"{number}={','.join(map(str, rows[number]))}" for number in sorted(rows))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def wanted_of(intents: Iterable[Intent]) -> dict[TopicPartition, Wanted]:
    """What every partition shall have that some intent is about."""
    found: dict[TopicPartition, Wanted] = {}
    for intent in sorted(intents, key=lambda each: each.key):
        for number in intent.open:
            place = TopicPartition(intent.topic, number)
            one, other = intent.wanted, found.get(place)
            if other is not None:
                most = max(one.replication_factor, other.replication_factor)
                one = Wanted(most, one.stand_ins | other.stand_ins)
            found[place] = one
    return found


def with_placeholders(
    replicas: Mapping[TopicPartition, tuple[int, ...]],
    wanted: Mapping[TopicPartition, Wanted],
    live: Iterable[int],
) -> dict[TopicPartition, tuple[int, ...]]:
    """The layout as it was asked for: a placeholder for each replica that is still to come."""
    up = frozenset(live)
    return {
        place: padded(held_by(row, wanted[place], up), wanted[place].replication_factor)
        if place in wanted
        else row
        for place, row in replicas.items()
    }


def _ranges(numbers: Sequence[int]) -> list[list[int]]:
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges


def _numbers(ranges: Any) -> list[int]:
    found: list[int] = []
    for first, last in ranges:
        begin = _number(first, found[-1] + 1 if found else 0, MOST_PARTITIONS)
        found.extend(range(begin, _number(last, begin, MOST_PARTITIONS) + 1))
    return found


def _brokers(row: Any) -> tuple[int, ...]:
    if not isinstance(row, list) or len(row) > MOST_REPLICAS or len(set(row)) < len(row):
        raise ValueError("a list of brokers is none")
    return tuple(_number(each, 0, 2**31 - 1) for each in row)


def _number(value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError("a number is out of range")
    return value


def _text_or_none(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError("a text is none")
    return value


# ---- The compacted topic of intents: one partition, so that its reader is one.

INTENTS_TOPIC = "_rackward_intents"
CONTROLLERS = "rackward-controller"
"""The consumer group whose one member with a partition keeps the intents."""
REPLICAS = 3
POLICY = "cleanup.policy"

log = logging.getLogger("rackward.controller.pending_replicas")


def ensure_topic(admin: AdminConnection, state: ClusterState) -> Intent | None:
    """Make the topic where ``state`` (all topics, or this one) does not have it.

    It gets three replicas, or as many as there are live brokers: then the intent that it shall
    have three is returned, to be written to it. Somebody else may make it at the same time.

    Raises AdminError where it cannot be made, or is not compacted: intents would be lost then.
    """
    if INTENTS_TOPIC in state.topic_ids:
        _check_compacted(admin)
        return None
    # Racks or no racks, and some brokers without: this one is to be had anyway.
    view = replace(state.view, replicas={})
    ignoring = any(broker.rack is None for broker in view.brokers)
    spec = PlacementSpec(1, REPLICAS, topic=INTENTS_TOPIC, ignore_racks=ignoring)
    rows = place(spec, view, UnderReplicatedPlacer(MultiLevelPlacer(seed=0)))
    held = without_placeholders(rows[0])
    wanted = NewPartitions(
        INTENTS_TOPIC,
        rows=(held,),
        configs={
            POLICY: "compact",
            # As writable as any topic that is made with placeholders may be.
            "min.insync.replicas": "1",
            # Small segments, so that what is over is soon gone.
            "segment.bytes": str(16 << 20),
        },
    )
    if refused := make_partitions(admin, [wanted]):
        raise next(iter(refused.values()))
    # Somebody else's layout is as good.
    await_layout(admin, [wanted])
    made = read_state(admin, [INTENTS_TOPIC], ongoing=False)
    if INTENTS_TOPIC not in made.topic_ids:
        raise AdminError(f"topic {INTENTS_TOPIC} was made, and no broker knows of it: try again")
    _check_compacted(admin)
    row = made.view.replicas[TopicPartition(INTENTS_TOPIC, 0)]
    log.info("made topic %s on brokers %s", INTENTS_TOPIC, list(row))
    if len(row) >= REPLICAS:
        return None
    return Intent(
        id="itself",
        topic=INTENTS_TOPIC,
        topic_id=made.topic_ids[INTENTS_TOPIC],
        replication_factor=REPLICAS,
        open=(0,),
        layout=layout_digest({0: row}),
    )


def _check_compacted(admin: AdminConnection) -> None:
    found = read_topic_configs(admin, [INTENTS_TOPIC], [POLICY]).get(INTENTS_TOPIC, {})
    policies = {each.strip() for each in found.get(POLICY, "compact").split(",")}
    if policies != {"compact"}:
        raise AdminError(
            f"topic {INTENTS_TOPIC} has {POLICY}={found[POLICY]}, so that intents would be lost: "
            f"set it to compact"
        )


# ---- Reading intents: the last record of each key is the intent, an empty one is its end.


class IntentReader:
    """Intents by key, out of records in their order.

    ``faults`` are the records that are none, by key: they count as absent.
    """

    def __init__(self) -> None:
        self.intents: dict[str, Intent] = {}
        self.faults: dict[bytes, str] = {}

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """One more record."""
        name = (key or b"").decode(errors="replace")
        self.faults.pop(key or b"", None)
        self.intents.pop(name, None)
        if value is None:
            return
        try:
            self.intents[name] = parse_intent(key, value)
        except IntentError as error:
            self.faults[key or b""] = str(error)


def read_intents(properties: Mapping[str, object], timeout: float) -> IntentReader:
    """All intents now, of a cluster that has their topic. Raises AdminError."""
    from kafka import KafkaConsumer, TopicPartition
    from kafka.errors import KafkaError

    doing = f"reading {INTENTS_TOPIC}"
    reader = IntentReader()
    deadline = time.monotonic() + timeout
    consumer: Any = None
    try:
        consumer = KafkaConsumer(
            **{
                "client_id": CLIENT_ID,
                **kafka_python_settings(properties),
                "group_id": None,
                "auto_offset_reset": "earliest",
                "allow_auto_create_topics": False,
            }
        )
        place = TopicPartition(INTENTS_TOPIC, 0)
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        end = consumer.end_offsets([place])[place]
        while consumer.position(place) < end:
            if time.monotonic() > deadline:
                raise AdminTimeoutError(f"{doing}: it was not read to its end in {timeout:g} s")
            for records in consumer.poll(timeout_ms=200).values():
                for record in records:
                    reader.take(record.key, record.value)
    except KafkaError as error:
        raise translated(doing, error) from error
    finally:
        if consumer is not None:
            consumer.close(autocommit=False)
    return reader


# ---- Writing intents, and taking them back.


class IntentWriter:
    """A producer of intents; ``properties`` say how to connect, ``timeout`` is in seconds.

    Raises AdminError where the cluster cannot be reached.
    """

    def __init__(self, properties: Mapping[str, object], timeout: float) -> None:
        self._timeout = timeout
        self._producer = reliable_producer(
            properties, timeout, f"connecting the producer of {INTENTS_TOPIC}"
        )

    def write(self, intents: Iterable[Intent], forgotten: Collection[str] = ()) -> None:
        """Keep these intents as they are now, and forget those of the keys ``forgotten``.

        Returns when all of it is on the replicas in sync. Raises AdminError; some may be there.
        """
        from kafka.errors import KafkaError

        records = [(intent.key, intent.record()) for intent in intents]
        try:
            sent = [
                self._producer.send(INTENTS_TOPIC, key=key.encode(), value=value, partition=0)
                for key, value in [*records, *((key, None) for key in forgotten)]
            ]
            self._producer.flush(timeout=self._timeout)
            for each in sent:
                each.get(timeout=self._timeout)
        except KafkaError as error:
            raise translated(f"writing to {INTENTS_TOPIC}", error) from error

    def close(self) -> None:
        """Close the connections."""
        self._producer.close(timeout=5)
