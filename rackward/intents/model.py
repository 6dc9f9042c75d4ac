"""One intent, its record, and what all of them together want. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from placement_core import RackwardError, TopicPartition
from placement_core.filling import Wanted, held_by
from placement_core.placeholders import padded

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
    see :class:`placement_core.filling.Wanted`. ``filling`` are replica lists that were decided on
    and perhaps asked for: whoever keeps the intent next asks for the same.
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
