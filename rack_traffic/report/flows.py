"""Measured flows in a report: beside the estimate, clients in no group, and members elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from rack_traffic.report.model import FlowClient, FlowPair, Flows, MisplacedMember

if TYPE_CHECKING:
    from rack_traffic.report.load import InputTable

_BYTES = {"bytes": pc.field("bytes")}
_CLIENT_RACK = {"consume": "to_rack", "produce": "from_rack"}
"""Kind to the column with the rack of the client."""


def read_flows(flows: InputTable, hourly: InputTable, period: pc.Expression) -> Flows | None:
    """Return the sums of the table FLOWS_HOURLY in a period, None if it has no rows there.

    The estimate, of ``hourly``, is that of the hours of a cluster for which there are flows.
    """
    pairs = ("cluster", "kind", "from_rack", "to_rack")
    by_hour = flows.sums((*pairs, "hour"), _BYTES, period)
    covered = {(row["cluster"], row["hour"]) for row in by_hour}
    if not covered:
        return None
    estimated = [
        row
        for row in hourly.sums((*pairs, "hour"), _BYTES, period)
        if (row["cluster"], row["hour"]) in covered
    ]
    measured, expected = _added(by_hour, pairs), _added(estimated, pairs)
    return Flows(
        hours=len({hour for _, hour in covered}),
        pairs=tuple(
            FlowPair(*key, *(sizes.get(key, 0) for sizes in (measured, expected)))
            for key in sorted({*measured, *expected}, key=_order)
        ),
        clients=_clients(flows, period),
        misplaced=_misplaced(flows, period),
    )


def _clients(flows: InputTable, period: pc.Expression) -> tuple[FlowClient, ...]:
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


def _misplaced(flows: InputTable, period: pc.Expression) -> tuple[MisplacedMember, ...]:
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
