"""Flow records beside the audit of a cluster: what was measured per kind, and by whom.

Needs pyarrow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow.compute as pc

from rack_traffic.flow_snapshot import CountedFlows
from rack_traffic.prices import KINDS, PriceTable, crossed_level
from rack_traffic.report.load import InputTable, clients_in_no_group, misplaced_members
from rackward.groups.audit_report import (
    AuditReport,
    MeasuredKind,
    MeasuredTraffic,
    MisplacedAddress,
    UngroupedClient,
)
from rackward.groups.writes import GB_A_MONTH


def measured_traffic(
    counted: CountedFlows, report: AuditReport, prices: PriceTable
) -> MeasuredTraffic:
    """Return the bytes that flow records counted, beside the estimate of ``report``."""
    seconds = (counted.until - counted.since).total_seconds()
    flows, everything = InputTable("flows_hourly", counted.hours), pc.scalar(True)
    sums: dict[str, dict[str, float]] = {kind: {} for kind in KINDS}
    pairs = flows.sums(("kind", "from_rack", "to_rack"), {"bytes": pc.field("bytes")}, everything)
    for row in pairs:
        of_kind, size = sums[row["kind"]], row["bytes"] / seconds
        racks = row["from_rack"], row["to_rack"]
        level = crossed_level(*racks)
        part = "unknown" if level is None else "crossing" if level else "local"
        of_kind[part] = of_kind.get(part, 0.0) + size
        price = prices.price(report.cluster_id or "", *racks, kind=row["kind"]) or 0.0
        of_kind["cost"] = of_kind.get("cost", 0.0) + size * price * GB_A_MONTH
    return MeasuredTraffic(
        since=counted.since,
        until=counted.until,
        rejected=sum(counted.rejected.values()),
        kinds=tuple(_kinds(sums, report)),
        clients=tuple(
            UngroupedClient(
                each.client,
                each.rack,
                round(each.read_bytes / seconds, 3),
                round(each.written_bytes / seconds, 3),
            )
            for each in clients_in_no_group(flows, everything)
        ),
        misplaced=tuple(
            MisplacedAddress(
                each.group,
                each.client,
                each.rack,
                each.network_rack,
                round(each.bytes / seconds, 3),
            )
            for each in misplaced_members(flows, everything)
        ),
    )


def _kinds(sums: Mapping[str, Mapping[str, float]], report: AuditReport) -> Iterator[MeasuredKind]:
    """Yield the kinds, those of ``sums`` beside those of the report."""
    now, writes = report.totals.now, report.writes
    estimates: dict[str, tuple[float | None, float]] = {"consume": (now.crossing, now.cost)}
    if writes is not None:
        estimates["produce"] = writes.crossing, writes.cost
        estimates["replicate"] = None, writes.replication_cost
    for kind in KINDS:
        measured = sums[kind]
        sizes = [measured.get(part, 0.0) for part in ("local", "crossing", "unknown")]
        yield MeasuredKind(
            kind,
            round(sum(sizes), 3),
            round(sizes[1], 3),
            round(sizes[2], 3),
            round(measured.get("cost", 0.0), 4),
            *estimates.get(kind, (None, None)),
        )
