"""Where producers are: the racks that brokers do not know, declared, measured or assumed.

Brokers know the rack of no producer. Operators may declare shares per topic, and flow records
measure them, in the pipeline's tables; without, producers are assumed in equal parts in all racks
that hold replicas of the cluster's topics in that hour.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from placement_core import InvalidOptionError, parse_rack
from rack_traffic.errors import InputError, MissingPackageError

ASSUMPTION = "in equal parts in all racks that hold replicas"
"""Where producers of topics without declared shares are."""

ALL_TOPICS = "*"


@dataclass(frozen=True, slots=True)
class Writers:
    """The declared shares of producers: topic (or ALL_TOPICS) to rack to a part of 1."""

    shares: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def description(self) -> str:
        """Return a sentence about where producers are assumed."""
        shares = {
            topic: ", ".join(f"{rack} {part:.4g}" for rack, part in racks.items())
            for topic, racks in self.shares.items()
        }
        others = shares.pop(ALL_TOPICS, ASSUMPTION)
        named = [f"of {topic}: {text}; " for topic, text in shares.items()]
        return f"Producers are assumed {''.join(named)}{'of others: ' if named else ''}{others}"


def parse_writers(texts: Iterable[str], option: str = "--writers") -> Writers:
    """Return the shares in texts such as ``a=60,b=30,c=10`` or ``orders:a=2,b=1``.

    The part before the colon is a topic; ``*`` or none is all others. Shares are in proportion.
    Raise InvalidOptionError, which names ``option``.
    """
    shares: dict[str, dict[str, float]] = {}
    for text in texts:
        head, colon, rest = text.partition(":")
        topic, racks = (head, rest) if colon and "=" not in head else (ALL_TOPICS, text)
        weights: dict[str, float] = {}
        for item in racks.split(","):
            rack, _, number = item.strip().rpartition("=")
            try:
                weight = float(number)
            except ValueError:
                weight = -1.0
            if parse_rack(rack) is None or not 0 <= weight < math.inf:
                raise InvalidOptionError(
                    f"{option} {text!r}: give RACK=SHARE,... or TOPIC:RACK=SHARE,..."
                )
            weights[rack] = weight
        whole = sum(weights.values())
        if not whole:
            raise InvalidOptionError(f"{option} {text!r}: all shares are 0")
        shares[topic] = {rack: weight / whole for rack, weight in weights.items() if weight}
    return Writers(shares)


@dataclass(frozen=True, slots=True)
class MeasuredWriters:
    """The measured racks of producers of a cluster.

    ``shares`` has, per topic, rack to a part of 1. They are measured in ``hours`` hours, for
    ``coverage`` of all bytes that were written to these topics; the rest is assumed.
    """

    shares: Mapping[str, Mapping[str, float]]
    hours: int
    coverage: float


def read_measured_writers(folder: str, cluster: str | None) -> MeasuredWriters:
    """Return the measured racks in the table HOURLY in ``folder``; ``cluster`` None: the only one.

    Raise InputError if it cannot be read, has several clusters, or nothing measured, and
    MissingPackageError without pyarrow.
    """
    try:
        import pyarrow.compute as pc

        from rack_traffic.report.load import InputTable
    except ImportError as error:
        raise MissingPackageError(error.name or "pyarrow") from error
    table = InputTable("hourly", f"{folder.rstrip('/')}/hourly")
    condition = pc.equal(pc.field("kind"), "produce")
    keys = ("cluster", "topic", "from_rack", "source", "hour")
    rows = table.sums(keys, {"bytes": pc.field("bytes")}, condition)
    clusters = sorted({row["cluster"] for row in rows})
    if cluster is None and len(clusters) > 1:
        raise InputError(f"{folder} has several clusters ({', '.join(clusters)}): name one")
    rows = [row for row in rows if cluster in (None, row["cluster"])]
    known = [
        row for row in rows if row["source"] == "measured" and row["from_rack"] and row["bytes"]
    ]
    if not known:
        where = f" of cluster {cluster}" if cluster is not None else ""
        raise InputError(
            f"{folder} has no measured racks of producers{where}: run `rackward traffic run` with "
            "--flows, and with --flow-addresses that names the racks of their addresses"
        )
    sizes: dict[str, dict[str, int]] = {}
    for row in known:
        of_topic = sizes.setdefault(row["topic"], {})
        of_topic[row["from_rack"]] = of_topic.get(row["from_rack"], 0) + row["bytes"]
    whole = sum(row["bytes"] or 0 for row in rows if row["topic"] in sizes)
    return MeasuredWriters(
        {
            topic: {rack: size / sum(racks.values()) for rack, size in sorted(racks.items())}
            for topic, racks in sorted(sizes.items())
        },
        len({row["hour"] for row in known}),
        sum(row["bytes"] for row in known) / whole,
    )
