"""The clusters to collect from, out of a file.

    clusters:
      prod-east:
        command_config: /etc/rackward/prod-east.properties
        requests_per_second: 10
        exclude_groups: [test-*]
        racks: {10.1.0.0/16: use1-az1, 10.2.0.0/16: use1-az2}
        reports_topic: rackward-client-reports
      staging:
        bootstrap_servers: kafka-1:9092,kafka-2:9092

The same in JSON or TOML; the file's suffix says which. YAML needs the extra ``yaml``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rackward.collector.errors import SourceError
from rackward.controller.config import read_document
from rackward.host_racks import RackMap, parse_rack_map

# ---- Which groups and topics are collected.


@dataclass(frozen=True, slots=True)
class Patterns:
    """Names that match one of ``include`` (none: all names) and none of ``exclude``.

    In a pattern, ``*`` stands for any letters and ``?`` for one.
    """

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()

    def take(self, name: str) -> bool:
        """Whether ``name`` is one of them."""
        if self.include and not any(fnmatchcase(name, each) for each in self.include):
            return False
        return not any(fnmatchcase(name, each) for each in self.exclude)

    @property
    def all(self) -> bool:
        """Whether every name is one of them."""
        return not self.include and not self.exclude


@dataclass(frozen=True, slots=True)
class Selection:
    """Groups and topics to collect; ``internal`` has the topics that Kafka keeps for itself."""

    groups: Patterns = Patterns()
    topics: Patterns = Patterns()
    internal: bool = False


DEFAULT_REQUESTS_PER_SECOND = 50.0

_KEYS = (
    "bootstrap_servers",
    "command_config",
    "requests_per_second",
    "groups",
    "exclude_groups",
    "topics",
    "exclude_topics",
    "internal_topics",
    "racks",
    "reports_topic",
)

ReadProperties = Callable[[Path], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """A cluster, by the name that its rows will have, and how and what to ask it.

    ``properties`` are connection settings in Java's or librdkafka's words; they may hold
    secrets, and are not shown.
    """

    name: str
    properties: Mapping[str, object] = field(repr=False)
    selection: Selection = field(default_factory=Selection)
    racks: RackMap = field(default_factory=RackMap)
    requests_per_second: float = DEFAULT_REQUESTS_PER_SECOND
    reports_topic: str | None = None


def read_sources(
    path: Path, read_properties: ReadProperties, defaults: ClusterSource
) -> list[ClusterSource]:
    """The clusters in the file at ``path``; what one does not say is as in ``defaults``.

    ``read_properties`` reads the file that ``command_config`` names, relative to ``path``.
    Raises SourceError and DocumentError, which name the file and the cluster.
    """
    document = read_document(path)
    clusters = document.get("clusters") if isinstance(document, Mapping) else None
    if not isinstance(clusters, Mapping) or not clusters:
        raise SourceError(f"{path}: write 'clusters:', and under it a name for each cluster")
    if unknown := sorted(set(document) - {"clusters"}):
        raise SourceError(f"{path}: {unknown[0]!r} means nothing here: there is 'clusters'")
    return [
        _source(str(name), given, path, read_properties, defaults)
        for name, given in clusters.items()
    ]


def read_rack_map(path: Path) -> RackMap:
    """Hosts, addresses and subnets to racks, out of a file.

    Raises SourceError and DocumentError.
    """
    document = read_document(path)
    if not isinstance(document, Mapping):
        raise SourceError(f"{path}: write an address or a subnet and its rack on each line")
    return parse_rack_map(document, str(path))


def _source(
    name: str, given: Any, path: Path, read_properties: ReadProperties, defaults: ClusterSource
) -> ClusterSource:
    where = f"{path}: cluster {name}"
    if not isinstance(given, Mapping):
        raise SourceError(f"{where}: write its settings under it, such as bootstrap_servers")
    if unknown := sorted(set(map(str, given)) - set(_KEYS)):
        raise SourceError(f"{where}: {unknown[0]!r} is no setting; there are {', '.join(_KEYS)}")
    properties: dict[str, object] = dict(defaults.properties)
    if (config := _text(given, "command_config", where)) is not None:
        properties |= read_properties(path.parent / Path(config).expanduser())
    if (servers := _text(given, "bootstrap_servers", where)) is not None:
        properties["bootstrap.servers"] = servers
    if "bootstrap.servers" not in properties:
        raise SourceError(f"{where}: say where it is: bootstrap_servers, or command_config")
    selection = defaults.selection
    racks = defaults.racks
    if "racks" in given:
        if not isinstance(given["racks"], Mapping):
            raise SourceError(f"{where}: racks has to be addresses or subnets with their racks")
        racks = parse_rack_map(given["racks"], f"{where}: racks")
    rate = given.get("requests_per_second", defaults.requests_per_second)
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not rate > 0:
        raise SourceError(f"{where}: requests_per_second is {rate!r}: give a positive number")
    internal = given.get("internal_topics", selection.internal)
    if not isinstance(internal, bool):
        raise SourceError(f"{where}: internal_topics is {internal!r}: write true or false")
    return ClusterSource(
        name=name,
        properties=properties,
        selection=Selection(
            groups=_patterns(given, "groups", selection.groups, where),
            topics=_patterns(given, "topics", selection.topics, where),
            internal=internal,
        ),
        racks=racks,
        requests_per_second=float(rate),
        reports_topic=_text(given, "reports_topic", where) or defaults.reports_topic,
    )


def _patterns(given: Mapping[str, Any], what: str, default: Patterns, where: str) -> Patterns:
    return Patterns(
        _texts(given, what, default.include, where),
        _texts(given, f"exclude_{what}", default.exclude, where),
    )


def _texts(given: Mapping[str, Any], key: str, default: Sequence[str], where: str) -> Sequence[str]:
    value = given.get(key, default)
    several = [value] if isinstance(value, str) else value
    if not isinstance(several, list | tuple) or not all(isinstance(each, str) for each in several):
        raise SourceError(f"{where}: {key} is {value!r}: write a list of names, with * if need be")
    return tuple(several)


def _text(given: Mapping[str, Any], key: str, where: str) -> str | None:
    value = given.get(key)
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        value = ",".join(value)
    if value is not None and (not isinstance(value, str) or not value):
        raise SourceError(f"{where}: {key} is {value!r}: write a text")
    return value
