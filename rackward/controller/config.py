"""The controller's configuration file, in YAML, TOML or JSON; all settings may be left out.

`rackward controller --help` shows all settings with their defaults, docs/controller.md explains
them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from placement_core import InvalidOptionError
from rack_traffic.writers import Writers, parse_writers
from rackward.config_files import (
    ConfigError,
    Flag,
    Properties,
    Text,
    Texts,
    convert,
    load,
    properties_as_text,
)
from rackward.groups.host_racks import HostRacks
from rackward.lead import LeadOptions, TakeOver, TakeOverPolicy, parse_protocols
from rackward.placement_service import DEFAULT_ADDRESS, MutualTls
from rackward.units import parse_bytes, parse_listen_address

HEALTH_ADDRESS = "127.0.0.1:9481"

_OFF = "off"
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_MAX_THROTTLED_PARTITIONS = 500
"""Partitions of one topic whose throttled replicas fit into one configuration value of Kafka."""

ReadProperties = Callable[[Path], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class ListenConfig:
    """Where to listen, and the files of mutual TLS."""

    host: str
    port: int
    tls: MutualTls | None = None


@dataclass(frozen=True, slots=True)
class FollowConfig:
    """How leaders follow the members of ``groups`` (patterns with ``*``) and the ``writers``.

    ``host_racks`` are the racks of members that send none.
    Times are in seconds, ``min_rate`` in bytes a second; `rackward.controller.leader_decision` has
    the rules.
    """

    groups: tuple[str, ...]
    min_gain: float = 0.1
    min_rate: float = 1000.0
    settle: float = 30.0
    rest: float = 600.0
    elections_per_hour: int = 1000
    max_imbalance: float = 1.0
    writers: Writers = field(default_factory=Writers)
    host_racks: HostRacks = field(default_factory=HostRacks)


@dataclass(frozen=True, slots=True)
class LeadConfig:
    """The consumer ``groups`` (patterns with ``*``) that the active controller leads, and how."""

    groups: tuple[str, ...]
    options: LeadOptions


class _Section(msgspec.Struct, forbid_unknown_fields=True):
    """A section of the file; a ValueError of ``__post_init__`` is reported as an error in it."""


class Placement(_Section):
    """The plug-ins that place replicas, and that know the racks of brokers."""

    placer: Text = "rack-alternating"
    properties: Properties = {}
    locator: Text = "metadata"
    locator_properties: Properties = {}
    ignore_racks: Flag = False


class UnderReplicated(_Section):
    """How missing replicas are added."""

    allowed: Flag = False
    partitions_at_once: Annotated[
        int, Meta(ge=1, le=10_000, description="a whole number from 1 to 10000")
    ] = 100
    throttle: Annotated[
        str | int | bool, Meta(description="bytes per second, such as 50MB, or off")
    ] = False

    def __post_init__(self) -> None:
        if self.rate is not None and self.partitions_at_once > _MAX_THROTTLED_PARTITIONS:
            raise ValueError(
                f"partitions_at_once is {self.partitions_at_once}: with a throttle, write at most "
                f"{_MAX_THROTTLED_PARTITIONS}: Kafka's lists of throttled replicas are not longer"
            )

    @property
    def rate(self) -> int | None:
        """The throttle in bytes per second, None if it is off."""
        if self.throttle is False or self.throttle == _OFF:
            return None
        try:
            return parse_bytes("throttle", str(self.throttle), rate=True)
        except InvalidOptionError as error:
            raise ValueError(
                f"throttle is {self.throttle!r}: write bytes per second, such as 50MB, or off"
            ) from error


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """The settings of a controller.

    Connection ``properties``, and those of ``placement``, may hold secrets; they are left out of
    ``repr``. ``service``, ``health``, ``leaders`` and ``lead`` are None where they are off.
    """

    properties: Mapping[str, object] = field(repr=False)
    placement: Placement = field(default_factory=Placement, repr=False)
    under_replicated: UnderReplicated = field(default_factory=UnderReplicated)
    service: ListenConfig | None = None
    health: ListenConfig | None = None
    leaders: FollowConfig | None = None
    lead: LeadConfig | None = None


def read_config(
    path: Path,
    read_properties: ReadProperties,
    cluster_options: Callable[[], Mapping[str, object]],
    *,
    overridden: bool = False,
) -> ControllerConfig:
    """Read the configuration file at ``path``.

    ``read_properties`` reads the properties file that ``command_config`` names.
    ``cluster_options`` returns the connection properties of a cluster that is not in the file, or
    is ``overridden``. Raises ConfigError, which names the file and the setting.
    """
    document = convert(load(path), _Document, str(path))
    cluster = document.cluster
    properties: dict[str, object] = {}
    if overridden or (cluster.bootstrap_servers is None and cluster.command_config is None):
        properties |= cluster_options()
    else:
        if cluster.command_config is not None:
            properties |= read_properties(path.parent / Path(cluster.command_config).expanduser())
        if cluster.bootstrap_servers is not None:
            properties["bootstrap.servers"] = ",".join(_texts(cluster.bootstrap_servers))
    if not properties.keys() & {"bootstrap.servers", "metadata.broker.list"}:
        raise ConfigError(
            f"{path}: cluster: no cluster is given: set bootstrap_servers, or command_config, or "
            "leave it out and give --bootstrap-server"
        )
    service = _listen_config(document.service, path)
    health = _listen_config(document.health, path)
    addresses = [
        (listen.host, listen.port) for listen in (service, health) if listen and listen.port
    ]
    if service and len(set(addresses)) < len(addresses):
        raise ConfigError(
            f"{path}: service and health both listen on port {service.port}: give each its own"
        )
    return ControllerConfig(
        properties=properties,
        placement=document.placement,
        under_replicated=document.under_replicated,
        service=service,
        health=health,
        leaders=document.leaders.config,
        lead=document.lead.config,
    )


# YAML reads ``off`` as False.
_Address = Annotated[str | bool, Meta(description="HOST:PORT, or off")]
_Time = Annotated[Text, Meta(description="a time such as 10m")]


class _Cluster(_Section):
    bootstrap_servers: Texts | None = None
    command_config: Text | None = None


class _Listener(_Section):
    listen: _Address = False
    ca_file: Text | None = None
    cert_file: Text | None = None
    key_file: Text | None = None

    def __post_init__(self) -> None:
        self.address()
        files = (self.ca_file, self.cert_file, self.key_file)
        if any(files) and not (self.ca_file and self.cert_file):
            raise ValueError("TLS requires ca_file and cert_file (and key_file)")

    def address(self) -> tuple[str, int] | None:
        """Return host and port, None if it is off."""
        if self.listen is False or self.listen == _OFF:
            return None
        try:
            return parse_listen_address(str(self.listen))
        except ValueError as error:
            raise ValueError(f"listen is {self.listen!r}: {error}, or off") from error


class _Health(_Listener):
    listen: _Address = HEALTH_ADDRESS


class _Service(_Listener):
    listen: _Address = DEFAULT_ADDRESS


class _Leaders(_Section):
    follow: Texts = []
    min_gain: Annotated[float, Meta(ge=0.0, le=1.0, description="a number from 0 to 1")] = 0.1
    min_rate: Annotated[str | int, Meta(description="bytes per second, such as 1kB")] = "1kB"
    settle: _Time = "30s"
    rest: _Time = "10m"
    elections_per_hour: Annotated[int, Meta(ge=1, description="a whole number from 1")] = 1000
    max_imbalance: Annotated[
        float, Meta(ge=0.0, le=1000.0, description="a share of the mean, from 0 to 1000")
    ] = 1.0
    writers: Texts = []
    mapping: Properties = {}

    def __post_init__(self) -> None:
        self.config  # noqa: B018 - for its errors

    @property
    def config(self) -> FollowConfig | None:
        """The settings, None if no group is followed."""
        config = FollowConfig(
            _texts(self.follow),
            self.min_gain,
            parse_bytes("min_rate", str(self.min_rate), rate=True),
            _seconds("settle", self.settle),
            _seconds("rest", self.rest),
            self.elections_per_hour,
            self.max_imbalance,
            parse_writers(_texts(self.writers), option="writers"),
            HostRacks.parse(properties_as_text(self.mapping), "mapping"),
        )
        return config if config.groups else None


def _texts(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _seconds(setting: str, text: str) -> float:
    """Return the seconds of a time such as 10m. Raises ValueError."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([smhd])", text)
    if match is None:
        raise ValueError(f"{setting} is {text!r}: write a time such as 10m")
    return float(match[1]) * _SECONDS[match[2]]


class _Lead(_Section):
    groups: Texts = []
    take_over: Annotated[str, Meta(description="wait or remove")] = TakeOver.WAIT.value
    remove_static: Flag = False
    mapping: Properties = {}
    protocols: Properties = {}

    def __post_init__(self) -> None:
        self.config  # noqa: B018 - for its errors

    @property
    def config(self) -> LeadConfig | None:
        """The settings, None if no group is led."""
        try:
            mode = TakeOver(self.take_over)
        except ValueError:
            raise ValueError(f"take_over is {self.take_over!r}: write wait or remove") from None
        pairs = [f"{k}={v}" for k, v in properties_as_text(self.protocols).items()]
        options = LeadOptions(
            protocols=parse_protocols("protocols", pairs),
            host_racks=HostRacks.parse(properties_as_text(self.mapping), "mapping"),
            take_over=TakeOverPolicy(mode, self.remove_static),
        )
        return LeadConfig(_texts(self.groups), options) if self.groups else None


class _Document(_Section):
    cluster: _Cluster = msgspec.field(default_factory=_Cluster)
    placement: Placement = msgspec.field(default_factory=Placement)
    under_replicated: UnderReplicated = msgspec.field(default_factory=UnderReplicated)
    service: _Service = msgspec.field(default_factory=_Service)
    health: _Health = msgspec.field(default_factory=_Health)
    leaders: _Leaders = msgspec.field(default_factory=_Leaders)
    lead: _Lead = msgspec.field(default_factory=_Lead)


def _listen_config(section: _Listener, path: Path) -> ListenConfig | None:
    address = section.address()
    if address is None:
        return None
    names = [section.ca_file, section.cert_file, section.key_file]
    ca, cert, key = (str(path.parent / Path(name).expanduser()) if name else "" for name in names)
    return ListenConfig(*address, MutualTls(ca, cert, key or None) if ca else None)
