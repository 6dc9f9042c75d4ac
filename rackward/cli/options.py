"""Options that several commands have, with the same names, environment and help."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import typer

from placement_core import InvalidOptionError
from placement_core.locators import MetadataLocator, RackLocator
from placement_core.placers import ReplicaPlacer, SimplePlacer, load_placer, parse_properties
from placement_core.placers.round_robin import new_seed
from rackward.admin import TIMEOUT_SECONDS
from rackward.rack_locators import load_locator
from rackward.reassignment import Pace
from rackward.units import read_bytes

CLUSTER = "The cluster"
PLACEMENT = "Placement"

DEFAULT_TIMEOUT = TIMEOUT_SECONDS

BootstrapServer = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        metavar="HOST:PORT,...",
        envvar="RACKWARD_BOOTSTRAP_SERVER",
        help="Brokers to begin with.",
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        envvar="RACKWARD_COMMAND_CONFIG",
        help="How to connect (TLS, SASL, time-outs): a Java client.properties, or the same "
        "in librdkafka's names.",
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0.1,
        max=3600.0,
        help="How long the cluster may take to answer.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, to stdout.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before changing anything.")]

RackMapping = Annotated[
    str | None,
    typer.Option(
        "--mapping",
        metavar="HOST=RACK,...",
        help="Racks of members that do not say theirs, by host, address or network "
        "(10.0.1.0/24=a).",
    ),
]
AllowUnderReplicated = Annotated[
    bool,
    typer.Option(
        "--allow-under-replicated",
        help="Where fewer brokers are live than replicas are wanted, and at least "
        "min.insync.replicas: make them with what there is. rackward controller adds the rest.",
    ),
]
IgnoreRacks = Annotated[
    bool, typer.Option("--ignore-racks", help="Place as if no broker had a rack.")
]
RackLocatorName = Annotated[
    str | None,
    typer.Option(
        "--rack-locator",
        metavar="NAME",
        help="Where racks come from: metadata (the default: broker.rack), static, file, "
        "command, or module:Class.",
    ),
]
RackLocatorProperties = Annotated[
    str | None,
    typer.Option(
        "--rack-locator-properties",
        metavar="KEY=VALUE,...",
        help="Its properties: path=FILE of file, command=PROGRAM of command, "
        "ID=RACK,... of static.",
    ),
]
PlacementName = Annotated[
    str | None,
    typer.Option(
        "--placement",
        metavar="NAME",
        help="Who decides: rack-alternating (the default), simple, multi-level (racks such as "
        "/dc1/room2), like-topic, or module:Class.",
    ),
]
PlacementProperties = Annotated[
    str | None,
    typer.Option("--placement-properties", metavar="KEY=VALUE,...", help="Its properties."),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        metavar="N",
        min=0,
        help="Decides where layouts begin; the same seed, the same one.",
    ),
]
Brokers = Annotated[
    str | None,
    typer.Option(
        "--brokers", metavar="ID,...", help="Use these brokers only, such as 0,1,4-6. Default: all."
    ),
]


# ---- How fast, and in what portions, a plan is carried out.

Throttle = Annotated[
    str | None,
    typer.Option(
        "--throttle",
        metavar="BYTES/s",
        help="What each broker may send, and receive, for new replicas: 50MB, say. "
        "Default: no bound.",
    ),
]
BatchCount = Annotated[
    int | None,
    typer.Option(
        "--batch-count",
        metavar="N",
        min=1,
        max=1_000_000,
        help="Partitions that are moved at a time. Default: 100.",
    ),
]
BatchBytes = Annotated[
    str | None,
    typer.Option(
        "--batch-bytes", metavar="BYTES", help="Bytes that are copied at a time: 20GB, say."
    ),
]


def read_pace(throttle: str | None, batch_count: int | None, batch_bytes: str | None) -> Pace:
    """The options as values. Raises InvalidOptionError, which names the option."""
    return Pace(
        partitions=batch_count,
        bytes=None if batch_bytes is None else read_bytes("--batch-bytes", batch_bytes),
        throttle=None if throttle is None else read_bytes("--throttle", throttle, rate=True),
    )


def over(given: Pace, planned: Pace) -> Pace:
    """What the command line says, and where it says nothing, the plan."""
    return Pace(
        partitions=given.partitions or planned.partitions,
        bytes=given.bytes or planned.bytes,
        throttle=given.throttle or planned.throttle,
    )


# ---- The options of placement, as placers and rack locators.

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


# ---- The topics that --topics and --exclude name.

Topics = Annotated[
    str | None,
    typer.Option(
        "--topics",
        metavar="NAME,...",
        help="These topics only; * stands for any letters. Default: all.",
    ),
]
Exclude = Annotated[
    str | None, typer.Option("--exclude", metavar="NAME,...", help="But not these topics.")
]


def select(
    known: Collection[str], topics: str | None = None, exclude: str | None = None
) -> frozenset[str]:
    """The topics of ``known`` that are meant.

    Raises InvalidOptionError, naming the option, where a name or a pattern of ``topics`` fits
    none, and where ``exclude`` leaves none.
    """
    chosen = frozenset(known) if topics is None else frozenset[str]()
    for pattern in _patterns("--topics", topics):
        found = {name for name in known if fnmatchcase(name, pattern)}
        if not found:
            raise InvalidOptionError(
                f"--topics {pattern}: the cluster has no such topic that this user may see: "
                "check the name"
            )
        chosen |= found
    without = _patterns("--exclude", exclude)
    left = frozenset(
        name for name in chosen if not any(fnmatchcase(name, pattern) for pattern in without)
    )
    if chosen and not left:
        raise InvalidOptionError(f"--exclude {exclude}: no topic is left: exclude fewer")
    return left


def _patterns(option: str, text: str | None) -> list[str]:
    if text is None:
        return []
    found = [part.strip() for part in text.split(",")]
    if not all(found):
        raise InvalidOptionError(f"{option} {text!r}: write names, with commas between them")
    return found
