"""The clusters that a collector takes snapshots of, its configuration file, and its errors.

    clusters:
      prod-east:
        command_config: /etc/rackward/prod-east.properties
        requests_per_second: 10
        exclude_groups: [test-*]
        racks: {10.1.0.0/16: use1-az1, 10.2.0.0/16: use1-az2}
      staging:
        bootstrap_servers: kafka-1:9092,kafka-2:9092

The same in JSON or TOML; the file's suffix decides. YAML needs the extra ``yaml``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from placement_core import RackwardError
from rackward.config_files import Flag, Text, Texts, convert, load
from rackward.groups.host_racks import HostRacks
from rackward.units import matches_name

# ---- Errors of the collector.


class CollectorError(RackwardError):
    """Snapshots cannot be taken or stored."""


class SourceError(CollectorError, ValueError):
    """The configuration of clusters or of racks is not valid."""


class SinkError(CollectorError, OSError):
    """A snapshot cannot be written."""


class StoppedError(CollectorError):
    """The collector was stopped during a snapshot."""

    def __init__(self) -> None:
        super().__init__("the collector was stopped")


DEFAULT_REQUESTS_PER_SECOND = 50.0

ReadProperties = Callable[[Path], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Patterns:
    """Names that match one of ``include`` (none: all names) and none of ``exclude``.

    In a pattern, ``*`` matches any characters and ``?`` a single one.
    """

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()

    def matches(self, name: str) -> bool:
        """Return whether ``name`` is included and not excluded."""
        if self.include and not any(matches_name(name, pattern) for pattern in self.include):
            return False
        return not any(matches_name(name, pattern) for pattern in self.exclude)


@dataclass(frozen=True, slots=True)
class Selection:
    """Groups and topics to collect; ``internal`` includes Kafka's internal topics."""

    groups: Patterns = Patterns()
    topics: Patterns = Patterns()
    internal: bool = False


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """A cluster to collect from.

    ``name`` identifies the cluster in every row. ``properties`` are connection settings with Java's
    or librdkafka's names; they may hold secrets and are left out of ``repr``. ``racks`` are those
    of members that do not send one.
    """

    name: str
    properties: Mapping[str, object] = field(repr=False)
    selection: Selection = field(default_factory=Selection)
    racks: HostRacks = field(default_factory=HostRacks)
    requests_per_second: float = DEFAULT_REQUESTS_PER_SECOND


def read_sources(
    path: Path, read_properties: ReadProperties, defaults: ClusterSource
) -> list[ClusterSource]:
    """Return the clusters in the configuration file at ``path``.

    A setting that a cluster leaves out is that of ``defaults``. ``read_properties`` reads the
    properties file that ``command_config`` names, relative to ``path``. Raises ConfigError and
    SourceError, which name the file and the cluster.
    """
    document = convert(load(path), _Document, str(path))
    if not document.clusters:
        raise SourceError(f"{path}: write 'clusters:' and, below it, the name of each cluster")
    return [
        _source(str(name), settings, path, read_properties, defaults)
        for name, settings in document.clusters.items()
    ]


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    clusters: Annotated[dict[Any, Any], Meta(description="the name of each cluster")] = {}


class _Cluster(msgspec.Struct, forbid_unknown_fields=True):
    bootstrap_servers: Texts | None = None
    command_config: Text | None = None
    requests_per_second: Annotated[float, Meta(gt=0, description="a number above 0")] | None = None
    groups: Texts | None = None
    exclude_groups: Texts | None = None
    topics: Texts | None = None
    exclude_topics: Texts | None = None
    internal_topics: Flag | None = None
    racks: (
        Annotated[dict[Any, Any], Meta(description="addresses or networks, each with its rack")]
        | None
    ) = None


def _source(
    name: str, document: Any, path: Path, read_properties: ReadProperties, defaults: ClusterSource
) -> ClusterSource:
    where = f"{path}: cluster {name}"
    settings = convert(document, _Cluster, where)
    properties: dict[str, object] = dict(defaults.properties)
    if settings.command_config is not None:
        properties |= read_properties(path.parent / Path(settings.command_config).expanduser())
    if settings.bootstrap_servers is not None:
        properties["bootstrap.servers"] = ",".join(_list(settings.bootstrap_servers, ()))
    if "bootstrap.servers" not in properties:
        raise SourceError(f"{where}: no address: set bootstrap_servers, or command_config")
    racks = defaults.racks
    if settings.racks is not None:
        racks = HostRacks.parse(settings.racks, f"{where}: racks")
    inherited = defaults.selection
    return ClusterSource(
        name=name,
        properties=properties,
        selection=Selection(
            Patterns(
                _list(settings.groups, inherited.groups.include),
                _list(settings.exclude_groups, inherited.groups.exclude),
            ),
            Patterns(
                _list(settings.topics, inherited.topics.include),
                _list(settings.exclude_topics, inherited.topics.exclude),
            ),
            inherited.internal if settings.internal_topics is None else settings.internal_topics,
        ),
        racks=racks,
        requests_per_second=settings.requests_per_second or defaults.requests_per_second,
    )


def _list(texts: str | list[str] | None, default: Sequence[str]) -> Sequence[str]:
    if texts is None:
        return default
    return (texts,) if isinstance(texts, str) else tuple(texts)
