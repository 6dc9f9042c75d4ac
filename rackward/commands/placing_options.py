"""The options of placement, as placers and rack locators."""

from __future__ import annotations

import re
from dataclasses import dataclass

from placement_core import InvalidOptionError
from placement_core.locators import MetadataLocator, RackLocator
from placement_core.placers import ReplicaPlacer, SimplePlacer, load_placer, parse_properties
from placement_core.placers.start import new_seed
from rackward.locators import load_locator

DEFAULT_PLACER = "rack-alternating"
LIKE_TOPIC = "like-topic"
_SEEDED = ("rack-alternating", "simple", "multi-level")


@dataclass(frozen=True, slots=True)
class Placing:
    """Who decides where replicas go, and what they are told.

    ``name`` is the placer's on tools; ``like`` the topic that is placed like, where one is;
    ``seed`` None where the placer takes none; ``brokers`` None for all.
    """

    name: str
    placer: ReplicaPlacer
    fallback: SimplePlacer
    seed: int | None
    like: str | None
    locator: RackLocator
    ignore_racks: bool
    brokers: frozenset[int] | None


def read_placing(
    *,
    placement: str | None = None,
    placement_properties: str | None = None,
    like: str | None = None,
    seed: int | None = None,
    brokers: str | None = None,
    ignore_racks: bool = False,
    rack_locator: str | None = None,
    rack_locator_properties: str | None = None,
) -> Placing:
    """The options, checked. Where a placer takes a seed and none is given, a new one is drawn.

    Raises InvalidOptionError, which names the option, and what placers and locators raise for
    properties that they do not take.
    """
    properties = _properties("--placement-properties", placement_properties)
    name = placement or (LIKE_TOPIC if like is not None else DEFAULT_PLACER)
    if like is not None:
        if name != LIKE_TOPIC:
            raise InvalidOptionError(f"--like {like} and --placement {name}: give one of the two")
        if properties.setdefault("topic", like) != like:
            raise InvalidOptionError(
                f"--like {like} and the property topic={properties['topic']}: give one of the two"
            )
    if seed is not None and properties.setdefault("seed", str(seed)) != str(seed):
        raise InvalidOptionError(
            f"--seed {seed} and the property seed={properties['seed']}: give one of the two"
        )
    drawn = new_seed()
    if name in _SEEDED:
        properties.setdefault("seed", str(drawn))
    placer = load_placer(name, properties)
    told = properties.get("seed")
    return Placing(
        name=name,
        placer=placer,
        fallback=SimplePlacer(seed=drawn if seed is None else seed),
        seed=int(told) if told is not None else None,
        like=properties.get("topic") if name == LIKE_TOPIC else None,
        locator=_locator(rack_locator, rack_locator_properties, ignore_racks),
        ignore_racks=ignore_racks,
        brokers=None if brokers is None else broker_ids(brokers),
    )


def broker_ids(text: str, option: str = "--brokers") -> frozenset[int]:
    """``"0,1,4-6"`` as ids. Raises InvalidOptionError."""
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?", part)
        if match is None:
            raise InvalidOptionError(
                f"{option} {text}: {part.strip()!r} is not a broker id: write 0,1,4-6, say"
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last <= first + 99_999:
            raise InvalidOptionError(f"{option} {text}: {part.strip()!r} is not a range of ids")
        found.update(range(first, last + 1))
    return frozenset(found)


def key_values(option: str, given: list[str]) -> dict[str, str]:
    """``["a=1", "b=2"]`` as a dict. Raises InvalidOptionError, which names the option."""
    found: dict[str, str] = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not equals or not key.strip():
            raise InvalidOptionError(f"{option} {each}: write {option} key=value")
        if key.strip() in found:
            raise InvalidOptionError(f"{option} {key.strip()}: it is given twice, give it once")
        found[key.strip()] = value.strip()
    return found


def _locator(name: str | None, properties: str | None, ignore_racks: bool) -> RackLocator:
    if name is None:
        if properties is not None:
            raise InvalidOptionError(
                "--rack-locator-properties without --rack-locator: say which locator they are for"
            )
        return MetadataLocator()
    if ignore_racks:
        raise InvalidOptionError(f"--ignore-racks and --rack-locator {name}: give one of the two")
    return load_locator(name, _properties("--rack-locator-properties", properties))


def _properties(option: str, text: str | None) -> dict[str, str]:
    try:
        return parse_properties(text or "")
    except InvalidOptionError as error:
        raise InvalidOptionError(f"{option}: {error}") from error
