"""Where producers of topics are, as flow records measured it: read from the pipeline's tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow.compute as pc

from rack_traffic.errors import InputError
from rack_traffic.report.load import InputTable


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

    Raise InputError if it cannot be read, has several clusters, or nothing measured.
    """
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
