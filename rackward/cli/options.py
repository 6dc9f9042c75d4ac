"""Options that several commands share, alone or as groups (`rackward.cli.commands`)."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from assignors.connection import ConnectionPropertyError, read_properties, server_list
from placement_core import InvalidOptionError
from placement_core.locators import MetadataLocator, RackLocator
from placement_core.placers import SimplePlacer, load_placer, parse_properties
from placement_core.placers.round_robin import new_seed
from rack_traffic.prices import PriceTable, load_prices
from rack_traffic.report.format import Currency
from rackward.cli.completion import complete_groups, complete_topics
from rackward.cli.settings import MAX_TIMEOUT, MIN_TIMEOUT, settings_file
from rackward.kafka import TIMEOUT_SECONDS, AdminConnection, connect
from rackward.rack_locators import load_locator
from rackward.reassignment import BatchLimits
from rackward.reassignment.plan import RackSource
from rackward.topics.planner import PlacementOptions
from rackward.units import matches_name, parse_bytes

DEFAULT_TIMEOUT = TIMEOUT_SECONDS


# ---- The cluster.

BootstrapServer = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT,...", envvar="RACKWARD_BOOTSTRAP_SERVER", help="Bootstrap brokers."
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        envvar="RACKWARD_COMMAND_CONFIG",
        help="Properties file with connection settings (TLS, SASL, timeouts), with the names of "
        "the Java client or of librdkafka.",
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        envvar="RACKWARD_TIMEOUT",
        min=MIN_TIMEOUT,
        max=MAX_TIMEOUT,
        help="Timeout for each operation on the cluster.",
    ),
]


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The options that name a cluster; ``bootstrap_server`` overrides the file's servers."""

    bootstrap_server: BootstrapServer = None
    command_config: CommandConfig = None
    timeout: Timeout = DEFAULT_TIMEOUT

    def connect(self) -> AdminConnection:
        """Return a connection, to be closed with ``with``.

        Raises RackwardError if the file is not valid or the cluster cannot be reached.
        """
        properties = self.properties()
        if not properties.keys() & {"bootstrap.servers", "metadata.broker.list"}:
            raise InvalidOptionError(
                "no cluster is given: set --bootstrap-server HOST:PORT or "
                "RACKWARD_BOOTSTRAP_SERVER, bootstrap.servers in --command-config, or "
                f"bootstrap_server in {settings_file(os.environ)}"
            )
        try:
            return connect(properties, timeout=self.timeout)
        except ConnectionPropertyError as error:
            if self.command_config is None:
                raise
            raise InvalidOptionError(f"--command-config {self.command_config}: {error}") from error

    def properties(self) -> dict[str, object]:
        """Return the connection properties. Raises InvalidOptionError."""
        properties: dict[str, object] = {}
        if self.command_config is not None:
            properties |= read_config_file(self.command_config)
        if self.bootstrap_server is not None:
            server_list(self.bootstrap_server, "--bootstrap-server")
            properties["bootstrap.servers"] = self.bootstrap_server
        return properties


_MAX_FILE_BYTES = 1 << 20
_CONTROL_CHARACTER = re.compile(rb"[\x00-\x08\x0e-\x1f]")


def read_config_file(path: Path) -> dict[str, str]:
    """Return the properties in a file. Raises InvalidOptionError, which names it."""
    option = f"--command-config {path}"
    try:
        with path.expanduser().open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InvalidOptionError(f"{option}: it cannot be read: {error.strerror}") from error
    if len(content) > _MAX_FILE_BYTES or _CONTROL_CHARACTER.search(content):
        raise InvalidOptionError(f"{option}: it is not a properties file: give another one")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        # The encoding of Java's own properties files.
        text = content.decode("latin-1")
    try:
        properties = read_properties(text)
    except ConnectionPropertyError as error:
        raise InvalidOptionError(f"{option}: {error}") from error
    for name in properties:
        if not re.fullmatch(r"[A-Za-z0-9._-]+", name):
            raise InvalidOptionError(
                f"{option}: it is not a properties file: {name!r} is no name of a property"
            )
    return properties


# ---- Output, and changes of a cluster.

Json = Annotated[bool, typer.Option("--json", help="Print JSON, and only JSON, to stdout.")]
Top = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="List only the first N, also as JSON."),
]
AllPartitions = Annotated[
    bool, typer.Option("--all-partitions", help="List all partitions, also if there are many.")
]


KeepLogs = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", file_okay=False, help="Keep the logs of brokers and groups in DIR."
    ),
]


class LogFormat(Enum):
    """How log lines are written."""

    TEXT = "text"
    JSON = "json"


Logging = Annotated[
    LogFormat, typer.Option(help="Log lines as text, or as one JSON object per line.")
]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of a command that changes a cluster."""

    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done without changing anything.")
    ] = False
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False
    as_json: Json = False


# ---- Consumer groups.

RackMapping = Annotated[
    str | None,
    typer.Option(
        metavar="HOST=RACK,...",
        envvar="RACKWARD_MAPPING",
        help="Racks for members without client.rack, by host, IP address or CIDR block "
        "(10.0.1.0/24=a).",
    ),
]
Writers = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[TOPIC:]RACK=SHARE,...",
        help="Where producers are, such as a=60,b=30,c=10, for all topics or those not named; may "
        "be repeated. Default: in equal parts in all racks that hold replicas.",
    ),
]
Groups = Annotated[
    list[str],
    typer.Argument(
        metavar="GROUP",
        help="Consumer groups; * matches any characters.",
        autocompletion=complete_groups,
    ),
]
GroupNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="GROUP",
        help="Consumer groups; * matches any characters. Default: all groups.",
        show_default=False,
        autocompletion=complete_groups,
    ),
]

# ---- Prices.

Prices = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        envvar="RACKWARD_PRICES",
        help="Price table, as CSV or JSON: rules with per_gb and, optionally, kind (consume, "
        "replicate, produce), cluster, level (1 is the top level of rack paths), from_rack, "
        "to_rack, both_directions; or a published price (aws, aws-msk, gcp, azure); or the name or "
        "module:Class of a plug-in. Default: 0.02 per GB between racks, 0 within a rack.",
    ),
]
PricesProperties = Annotated[
    str | None,
    typer.Option(
        metavar="KEY=VALUE,...",
        envvar="RACKWARD_PRICES_PROPERTIES",
        help="Properties of the plug-in that --prices names.",
    ),
]
CurrencySign = Annotated[
    str,
    typer.Option(
        metavar="SIGN", envvar="RACKWARD_CURRENCY", help="Currency of the prices, such as EUR."
    ),
]
_MAX_CURRENCY_LENGTH = 8


@dataclass(frozen=True, slots=True)
class PriceOptions:
    """The options for prices and their currency."""

    prices: Prices = None
    prices_properties: PricesProperties = None
    currency: CurrencySign = "$"

    def parse(self) -> tuple[PriceTable, Currency]:
        """Return the table and the currency. Raises PriceTableError and InvalidOptionError."""
        symbol = Currency(currency_symbol(self.currency))
        return price_table(self.prices, self.prices_properties), symbol


def price_table(prices: str | None, properties: str | None = None) -> PriceTable:
    """Return the price table of a file or a plug-in, or the default one.

    Raise PriceTableError and InvalidOptionError.
    """
    if prices is None:
        if properties is not None:
            raise InvalidOptionError("--prices-properties without --prices: give the plug-in")
        return PriceTable()
    try:
        return load_prices(prices, parse_properties(properties or ""))
    except InvalidOptionError as error:
        raise InvalidOptionError(f"--prices: {error}") from error


def currency_symbol(text: str) -> str:
    """Return the symbol of ``--currency``. Raises InvalidOptionError."""
    symbol = text.strip()
    if not 0 < len(symbol) <= _MAX_CURRENCY_LENGTH or not symbol.isprintable():
        raise InvalidOptionError(
            f"--currency {text!r}: give a symbol or code of at most {_MAX_CURRENCY_LENGTH} "
            "characters, such as $ or EUR"
        )
    return symbol


# ---- Racks of brokers, and the placement of replicas.

Brokers = Annotated[
    str | None,
    typer.Option(
        metavar="ID,...",
        help="Place replicas on these brokers only, such as 0,1,4-6. Default: all live brokers.",
    ),
]
DEFAULT_PLACER = "rack-alternating"
LIKE_TOPIC = "like-topic"
_SEEDED_PLACERS = ("rack-alternating", "simple", "multi-level")


@dataclass(frozen=True, slots=True)
class LocatorOptions:
    """The options for the source of the brokers' racks."""

    rack_locator: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            envvar="RACKWARD_RACK_LOCATOR",
            help="Source of the brokers' racks: metadata (broker.rack; the default), static, file, "
            "command, or module:Class.",
        ),
    ] = None
    rack_locator_properties: Annotated[
        str | None,
        typer.Option(
            metavar="KEY=VALUE,...",
            envvar="RACKWARD_RACK_LOCATOR_PROPERTIES",
            help="Properties of the rack locator: path=FILE for file, command=PROGRAM for command, "
            "ID=RACK,... for static.",
        ),
    ] = None

    def locator(self, *, ignore_racks: bool = False) -> RackLocator:
        """Return the locator. Raises InvalidOptionError, which names the option."""
        if self.rack_locator is None and self.rack_locator_properties is not None:
            raise InvalidOptionError(
                "--rack-locator-properties without --rack-locator: give the rack locator"
            )
        # A rack locator may come from the environment or a file of settings.
        if self.rack_locator is None or ignore_racks:
            return MetadataLocator()
        properties = _parse_properties("--rack-locator-properties", self.rack_locator_properties)
        return load_locator(self.rack_locator, properties)

    def source(self, *, ignore_racks: bool = False) -> RackSource:
        """Return where the racks of a plan come from."""
        if ignore_racks:
            return RackSource.IGNORED
        metadata = self.rack_locator in (None, "metadata")
        return RackSource.METADATA if metadata else RackSource.LOCATOR


@dataclass(frozen=True, slots=True)
class PlacingOptions(LocatorOptions):
    """The options for placing replicas."""

    placement: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Placement strategy: rack-alternating, simple, multi-level (racks such as "
            "/dc1/room2), like-topic, or module:Class. Default: rack-alternating for new "
            "partitions, and the layout with the fewest copies for present ones.",
        ),
    ] = None
    placement_properties: Annotated[
        str | None,
        typer.Option(metavar="KEY=VALUE,...", help="Properties of the placement strategy."),
    ] = None
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Random seed; the same seed gives the same layout."),
    ] = None
    ignore_racks: Annotated[
        bool, typer.Option("--ignore-racks", help="Place as if no broker had a rack.")
    ] = False

    def parse(self, *, like: str | None = None, brokers: str | None = None) -> PlacementOptions:
        """Return the options of placement, with those of --like and --brokers.

        A placer that takes a seed gets a random one by default. Raises InvalidOptionError, which
        names the option, and what placers and locators raise for properties that they do not have.
        """
        properties = _parse_properties("--placement-properties", self.placement_properties)
        name = self.placement or (LIKE_TOPIC if like is not None else DEFAULT_PLACER)
        if like is not None and name != LIKE_TOPIC:
            raise InvalidOptionError(f"--like {like} and --placement {name}: give one of the two")
        for option, key, value in (("--like", "topic", like), ("--seed", "seed", self.seed)):
            if value is not None and properties.setdefault(key, str(value)) != str(value):
                raise InvalidOptionError(
                    f"{option} {value} and the property {key}={properties[key]}: give one of the "
                    "two"
                )
        random_seed = new_seed()
        if name in _SEEDED_PLACERS:
            properties.setdefault("seed", str(random_seed))
        placer = load_placer(name, properties)
        placer_seed = properties.get("seed")
        return PlacementOptions(
            name=name,
            placer=placer,
            fallback=SimplePlacer(seed=random_seed if self.seed is None else self.seed),
            seed=int(placer_seed) if placer_seed is not None else None,
            like=properties.get("topic") if name == LIKE_TOPIC else None,
            locator=self.locator(ignore_racks=self.ignore_racks),
            ignore_racks=self.ignore_racks,
            brokers=None if brokers is None else parse_broker_ids("--brokers", brokers),
        )


def parse_broker_ids(option: str, text: str) -> frozenset[int]:
    """Return the ids in ``"0,1,4-6"``. Raises InvalidOptionError, which names the option."""
    ids: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?", part)
        if match is None:
            raise InvalidOptionError(
                f"{option} {text}: {part.strip()!r} is not a broker id: write, for example, 0,1,4-6"
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last <= first + 99_999:
            raise InvalidOptionError(
                f"{option} {text}: {part.strip()!r} is not a range of broker ids"
            )
        ids.update(range(first, last + 1))
    return frozenset(ids)


def _parse_properties(option: str, text: str | None) -> dict[str, str]:
    try:
        return parse_properties(text or "")
    except InvalidOptionError as error:
        raise InvalidOptionError(f"{option}: {error}") from error


# ---- Batches of a plan.

BatchCount = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        max=1_000_000,
        help="Maximum number of partitions in a batch. Default: 100; 1000 for leaders.",
    ),
]


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """The options for the batches in which a plan is executed."""

    throttle: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES/s",
            help="Replication throttle per broker and direction, such as 50MB. Default: no "
            "throttle.",
        ),
    ] = None
    batch_count: BatchCount = None
    batch_bytes: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES",
            help="Maximum size of the data copied in a batch, such as 20GB. Default: no limit.",
        ),
    ] = None

    def limits(self) -> BatchLimits:
        """Return the options as values. Raises InvalidOptionError, which names the option."""
        size, rate = self.batch_bytes, self.throttle
        return BatchLimits(
            partitions=self.batch_count,
            bytes=None if size is None else parse_bytes("--batch-bytes", size),
            throttle=None if rate is None else parse_bytes("--throttle", rate, rate=True),
        )


# ---- Topics.


@dataclass(frozen=True, slots=True)
class TopicOptions:
    """The options that select topics."""

    topics: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Only these topics; * matches any characters. Default: all topics.",
            autocompletion=complete_topics,
        ),
    ] = None
    exclude: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Exclude these topics; * matches any characters.",
            autocompletion=complete_topics,
        ),
    ] = None

    def match(self, names: Collection[str]) -> frozenset[str]:
        """Return those of ``names`` that the options select.

        Raises InvalidOptionError, which names the option, if a name or pattern of ``topics``
        matches none of them, and if ``exclude`` leaves none.
        """
        chosen = frozenset(names) if self.topics is None else frozenset[str]()
        for pattern in _split_patterns("--topics", self.topics):
            matching = {name for name in names if matches_name(name, pattern)}
            if not matching:
                raise InvalidOptionError(
                    f"--topics {pattern}: the cluster has no such topic, or this user may not "
                    f"describe it: check the name, or grant this user Describe on {pattern}"
                )
            chosen |= matching
        excluded = _split_patterns("--exclude", self.exclude)
        left = frozenset(
            name for name in chosen if not any(matches_name(name, pattern) for pattern in excluded)
        )
        if chosen and not left:
            raise InvalidOptionError(f"--exclude {self.exclude}: no topic is left: exclude fewer")
        return left


def _split_patterns(option: str, text: str | None) -> list[str]:
    if text is None:
        return []
    patterns = [part.strip() for part in text.split(",")]
    if not all(patterns):
        raise InvalidOptionError(f"{option} {text!r}: write names separated by single commas")
    return patterns
