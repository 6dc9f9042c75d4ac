"""Measured flows in a report: beside the estimate, clients in no group, and members elsewhere; and
the costs of the what-if, which is computed from the estimate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from rack_traffic.report.model import FlowClient, FlowPair, Flows, MisplacedMember

if TYPE_CHECKING:
    from rack_traffic.report.load import InputTable

_BYTES = {"bytes": pc.field("bytes")}
_CLIENT_RACK = {"consume": "to_rack", "produce": "from_rack"}
"""Kind to the column with the rack of the client."""


def read_flows(
    flows: InputTable, hourly: InputTable, replaced: InputTable | None, period: pc.Expression
) -> Flows | None:
    """Return the sums of the table FLOWS_HOURLY in a period, None if it has no rows there.

    The estimate is that of the hours of a cluster for which there are flows: of ``replaced``, the
    table REPLACED_HOURLY, and of ``hourly`` where nothing is replaced.
    """
    pairs = ("cluster", "kind", "from_rack", "to_rack")
    by_hour = flows.sums((*pairs, "hour"), _BYTES, period)
    seen = {(row["cluster"], row["hour"]) for row in by_hour}
    if not seen:
        return None
    rows = hourly.sums((*pairs, "hour", "source"), _BYTES, period)
    estimated = [] if replaced is None else replaced.sums((*pairs, "hour"), _BYTES, period)
    measured_kinds = {_kind(row) for row in rows if row["source"] == "measured"}
    measured_kinds |= {_kind(row) for row in estimated}
    estimated += [
        row
        for row in rows
        if (row["cluster"], row["hour"]) in seen and _kind(row) not in measured_kinds
    ]
    measured, expected = _added(by_hour, pairs), _added(estimated, pairs)
    return Flows(
        hours=len({hour for _, hour in seen}),
        measured_hours=len({hour for _, _, hour in measured_kinds}),
        pairs=tuple(
            FlowPair(*key, *(sizes.get(key, 0) for sizes in (measured, expected)))
            for key in sorted({*measured, *expected}, key=_order)
        ),
        clients=clients_in_no_group(flows, period),
        misplaced=misplaced_members(flows, period),
    )


def _kind(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["cluster"], row["kind"], row["hour"]


def cost_ratios(
    hourly: InputTable, replaced: InputTable, consumed: pc.Expression
) -> dict[tuple[str, str], float | None]:
    """Return, by cluster and group, the cost of its reads divided by that of the estimate.

    It is None without an estimated cost. Groups of which nothing is replaced are left out.
    ``consumed`` is the condition of the reads of the period.
    """
    keys, cost = ("cluster", "group"), {"cost": pc.field("cost")}
    estimated = {
        tuple(row[name] for name in keys): row["cost"] or 0.0
        for row in replaced.sums(keys, cost, consumed)
    }
    actual = dict.fromkeys(estimated, 0.0)
    for row in hourly.sums((*keys, "source"), cost, consumed):
        key = row["cluster"], row["group"]
        if key in actual:
            actual[key] += row["cost"] or 0.0
            if row["source"] != "measured":
                estimated[key] += row["cost"] or 0.0
    return {
        key: actual[key] / each if each else None
        for key, each in estimated.items()
        if each or actual[key]
    }


def clients_in_no_group(flows: InputTable, period: pc.Expression) -> tuple[FlowClient, ...]:
    """Return the clients that are in no group, largest first."""
    totals: dict[tuple[Any, ...], list[int]] = {}
    for column, (kind, rack) in enumerate(_CLIENT_RACK.items()):
        condition = period & pc.equal(pc.field("groups"), 0) & pc.equal(pc.field("kind"), kind)
        keys = ("cluster", "client", rack)
        for key, size in _added(flows.sums(keys, _BYTES, condition), keys).items():
            totals.setdefault(key, [0, 0])[column] += size
    clients = (FlowClient(*key, *sizes) for key, sizes in totals.items())
    return tuple(
        sorted(
            clients,
            key=lambda each: (-each.read_bytes - each.written_bytes, each.cluster, each.client),
        )
    )


def misplaced_members(flows: InputTable, period: pc.Expression) -> tuple[MisplacedMember, ...]:
    """Return the members whose rack is not that of their network, largest first."""
    sizes: dict[tuple[Any, ...], int] = {}
    for kind, rack in _CLIENT_RACK.items():
        condition = (
            period
            & pc.equal(pc.field("rack_source"), "member")
            & pc.equal(pc.field("kind"), kind)
            & pc.not_equal(pc.field("network_rack"), pc.field(rack))
        )
        keys = ("cluster", "group", "client", rack, "network_rack")
        for key, size in _added(flows.sums(keys, _BYTES, condition), keys).items():
            sizes[key] = sizes.get(key, 0) + size
    members = (MisplacedMember(*[*key, size]) for key, size in sizes.items())
    return tuple(sorted(members, key=lambda each: (-each.bytes, each.cluster, each.client)))


def _added(rows: Iterable[dict[str, Any]], keys: tuple[str, ...]) -> dict[tuple[Any, ...], int]:
    sums: dict[tuple[Any, ...], int] = {}
    for row in rows:
        key = tuple(row[name] or None for name in keys)
        sums[key] = sums.get(key, 0) + (row["bytes"] or 0)
    return sums


def _order(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple((each is None, each or "") for each in key)
