"""The controller's configuration file.

    cluster:
      bootstrap_servers: kafka-1:9092,kafka-2:9092
      command_config: client.properties     # TLS, SASL; relative to this file
    placement:
      placer: rack-alternating              # or simple, multi-level, module:Class
      properties: {seed: 7}
      locator: metadata                     # or static, file, command, module:Class
      locator_properties: {}
      ignore_racks: false
    under_replicated:
      allowed: false                        # may answers have placeholders
      partitions_at_once: 100
      throttle: 50MB                        # per second and broker; off: no bound
    service:
      listen: 127.0.0.1:9480                # off: none is served
      ca_file: ca.pem                       # mutual TLS; needed beyond loopback
      cert_file: controller.pem
      key_file: controller.key
    health:
      listen: 127.0.0.1:9481                # off: none
    leaders:
      every: 6h                             # off: never, which is the default
      groups: [orders, billing-*]
      least_gain: 0.05

The same in TOML or JSON. Only ``cluster`` must be there.
"""

from __future__ import annotations

import importlib
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from placement_core import InvalidOptionError, RackwardError
from rackward.controller.reconciler import AT_ONCE
from rackward.placement_service import DEFAULT_ADDRESS
from rackward.units import read_bytes

# ---- Files of settings in YAML (the extra ``yaml``), JSON or TOML, as the file's suffix says.

MOST_BYTES = 16 << 20


class DocumentError(RackwardError, ValueError):
    """A file of settings cannot be read, or is not of the form that its name says."""


def read_document(path: Path) -> Any:
    """What is in a file of YAML, JSON or TOML. Raises DocumentError."""
    try:
        with path.expanduser().open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise DocumentError(f"{path} cannot be read: {why}") from error
    if len(content) > MOST_BYTES:
        raise DocumentError(f"{path} has more than {MOST_BYTES >> 20} MB: name another file")
    match path.suffix.lower():
        case ".json":
            return _parsed(path, "JSON", lambda: json.loads(text), ValueError)
        case ".toml":
            return _parsed(path, "TOML", lambda: tomllib.loads(text), tomllib.TOMLDecodeError)
        case ".yaml" | ".yml":
            yaml: Any
            try:
                yaml = importlib.import_module("yaml")
            except ImportError:
                raise DocumentError(
                    f"{path}: YAML needs PyYAML: pip install 'rackward[yaml]', or write TOML"
                ) from None
            return _parsed(path, "YAML", lambda: yaml.safe_load(text), yaml.YAMLError)
        case _:
            raise DocumentError(f"{path}: name it .yaml, .json or .toml, after what it holds")


def _parsed(path: Path, kind: str, parse: Callable[[], Any], fault: type[Exception]) -> Any:
    try:
        return parse()
    except (fault, RecursionError) as error:
        # What parsers quote of the file may be a password.
        raise DocumentError(f"{path} is not {kind}: {_where(error)}") from error


def _where(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        return f"see line {mark.line + 1}, column {mark.column + 1}"
    line = getattr(error, "lineno", None)
    return f"see line {line}" if line else "check its punctuation"


OFF = "off"
PLACER = "rack-alternating"
LOCATOR = "metadata"
LEAST_GAIN = 0.05
HEALTH = "127.0.0.1:9481"

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LEAST_EVERY = 60.0
_MOST_THROTTLED = 500
"""Partitions of one topic, whose throttled replicas have to fit into one text of Kafka's."""

ReadProperties = Callable[[Path], Mapping[str, str]]


class SettingsError(RackwardError, ValueError):
    """The configuration file says something that cannot be meant."""


@dataclass(frozen=True, slots=True)
class Door:
    """Where to listen, and the files of mutual TLS, all of them or none."""

    host: str
    port: int
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


@dataclass(frozen=True, slots=True)
class LeaderLayouts:
    """``every`` so many seconds, for the ``groups`` (* stands for any letters), where the share of
    partitions that are read locally grows by ``least_gain``."""

    every: float
    groups: tuple[str, ...]
    least_gain: float = LEAST_GAIN


@dataclass(frozen=True, slots=True)
class Settings:
    """What the file says; see the module's text. ``properties`` may hold secrets, and are not
    shown. ``throttle`` is in bytes per second; it, ``service``, ``health`` and ``leaders`` are None
    where they are off."""

    properties: Mapping[str, object] = field(repr=False)
    placer: str = PLACER
    placer_properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    locator: str = LOCATOR
    locator_properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    ignore_racks: bool = False
    under_replicated: bool = False
    partitions_at_once: int = AT_ONCE
    throttle: int | None = None
    service: Door | None = None
    health: Door | None = None
    leaders: LeaderLayouts | None = None


def read_settings(path: Path, read_properties: ReadProperties) -> Settings:
    """The settings in the file at ``path``; ``read_properties`` reads its ``command_config``.

    Raises SettingsError and DocumentError, which name the file and the setting.
    """
    document = _Section(read_document(path), str(path))
    cluster = document.section("cluster")
    properties: dict[str, object] = {}
    if (config := cluster.text("command_config")) is not None:
        properties |= read_properties(path.parent / Path(config).expanduser())
    if (servers := cluster.text("bootstrap_servers")) is not None:
        properties["bootstrap.servers"] = servers
    if "bootstrap.servers" not in properties:
        raise SettingsError(
            f"{path}: say where the cluster is: bootstrap_servers, or command_config, in 'cluster'"
        )
    placement = document.section("placement")
    under_replicated = document.section("under_replicated")
    settings = Settings(
        properties=properties,
        placer=placement.text("placer") or PLACER,
        placer_properties=placement.texts("properties"),
        locator=placement.text("locator") or LOCATOR,
        locator_properties=placement.texts("locator_properties"),
        ignore_racks=placement.truth("ignore_racks", False),
        under_replicated=under_replicated.truth("allowed", False),
        partitions_at_once=int(
            under_replicated.number("partitions_at_once", AT_ONCE, least=1, most=10_000, whole=True)
        ),
        throttle=under_replicated.rate("throttle"),
        service=_door(document.section("service"), path, DEFAULT_ADDRESS),
        health=_door(document.section("health"), path, HEALTH),
        leaders=_leaders(document.section("leaders")),
    )
    for section in (cluster, placement, under_replicated, document):
        section.check_known()
    if settings.throttle is not None and settings.partitions_at_once > _MOST_THROTTLED:
        raise under_replicated.wrong(
            "partitions_at_once",
            settings.partitions_at_once,
            f"with a throttle, {_MOST_THROTTLED} at most: Kafka takes no longer lists of replicas",
        )
    return settings


def _door(section: _Section, path: Path, default: str) -> Door | None:
    listen = section.text("listen", default)
    files = {
        name: str(path.parent / Path(given).expanduser())
        for name in ("ca_file", "cert_file", "key_file")
        if (given := section.text(name)) is not None
    }
    section.check_known()
    if listen is None or listen == OFF:
        return None
    host, colon, port = listen.rpartition(":")
    if not colon or not re.fullmatch(r"[0-9]{1,5}", port):
        raise section.wrong("listen", listen, "write HOST:PORT, or off")
    if files and not {"ca_file", "cert_file"} <= files.keys():
        raise SettingsError(f"{section.where}: TLS takes ca_file and cert_file (and key_file)")
    return Door(host.strip("[]"), int(port), **files)


def _leaders(section: _Section) -> LeaderLayouts | None:
    every = section.text("every", OFF)
    groups = section.listed("groups")
    gain = section.number("least_gain", LEAST_GAIN, least=0.0, most=1.0)
    section.check_known()
    if every is None or every == OFF:
        return None
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([smhd])", every)
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if seconds < _LEAST_EVERY:
        raise section.wrong("every", every, "write a time of at least 1m, such as 6h, or off")
    if not groups:
        raise SettingsError(f"{section.where}: say whose consumers count: groups")
    return LeaderLayouts(seconds, groups, gain)


class _Section:
    """A mapping of the file; what is asked for is known, and anything else is an error."""

    def __init__(self, given: Any, where: str) -> None:
        self.where = where
        if given is None:
            given = {}
        if not isinstance(given, Mapping):
            raise SettingsError(f"{where}: write settings here, each with its name")
        self._given: Mapping[str, Any] = given
        self._known: list[str] = []

    def section(self, name: str) -> _Section:
        return _Section(self._value(name), f"{self.where}: {name}")

    def text(self, name: str, default: str | None = None) -> str | None:
        value = self._value(name)
        if value is None:
            return default
        if value is False:
            # What YAML makes of off.
            return OFF
        if not isinstance(value, str) or not value:
            raise self.wrong(name, value, "write a text")
        return value

    def texts(self, name: str) -> dict[str, str]:
        value = self._value(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self.wrong(name, "something else", "write properties, each with its name")
        return {
            str(key): str(each).lower() if isinstance(each, bool) else str(each)
            for key, each in value.items()
        }

    def listed(self, name: str) -> tuple[str, ...]:
        value = self._value(name)
        several = [value] if isinstance(value, str) else value or []
        if not isinstance(several, list) or not all(isinstance(each, str) for each in several):
            raise self.wrong(name, value, "write a list of names")
        return tuple(several)

    def truth(self, name: str, default: bool) -> bool:
        value = self._value(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.wrong(name, value, "write true or false")
        return value

    def number(
        self, name: str, default: float, *, least: float, most: float, whole: bool = False
    ) -> float:
        value = self._value(name)
        if value is None:
            return default
        kinds = int if whole else int | float
        if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= most:
            raise self.wrong(name, value, f"write a number from {least:g} to {most:g}")
        return value

    def rate(self, name: str) -> int | None:
        value = self._value(name)
        if value is None or value is False or value == OFF:
            return None
        try:
            return read_bytes(name, str(value), rate=True)
        except InvalidOptionError as error:
            raise self.wrong(name, value, "write bytes per second, such as 50MB, or off") from error

    def check_known(self) -> None:
        if unknown := sorted(set(map(str, self._given)) - set(self._known)):
            raise SettingsError(
                f"{self.where}: {unknown[0]!r} is no setting; there are {', '.join(self._known)}"
            )

    def wrong(self, name: str, value: object, do: str) -> SettingsError:
        return SettingsError(f"{self.where}: {name} is {value!r}: {do}")

    def _value(self, name: str) -> Any:
        self._known.append(name)
        return self._given.get(name)
