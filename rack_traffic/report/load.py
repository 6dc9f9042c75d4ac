"""Reading the pipeline's tables into a :class:`Summary`, with Arrow only: no Spark, no Java.

The hourly table may have more rows than fit in memory: Arrow adds them up while it reads. The
what-if tables have a row per group, scenario and interval. Over several intervals, the cost per
month of a group is the mean of the intervals, weighted by the time that snapshots cover; its
recommended change and its moves are those of the latest interval.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero
from pyarrow.dataset import dataset

from rack_traffic.errors import InputError, MissingPackageError
from rack_traffic.report.bill import OwnerRule, in_cents, team_of
from rack_traffic.report.model import (
    MIN_HOURS_TO_EXTRAPOLATE,
    BillLine,
    Change,
    ClusterHours,
    FlowClient,
    FlowPair,
    Flows,
    GroupTotal,
    HourTotal,
    MisplacedMember,
    PairTotal,
    RejectedRows,
    ScenarioTotal,
    Summary,
    Traffic,
)
from rack_traffic.tables import (
    HOURS_PER_MONTH,
    NO_GROUP,
    OUTPUT_TABLES,
    PRODUCERS,
    REPLICATION,
    SCENARIOS,
    columns_schema,
)

if TYPE_CHECKING:
    from deltalake import DeltaTable


COLUMNS: Mapping[str, tuple[str, ...]] = {
    "hourly": (
        *("cluster", "kind", "group", "topic", "from_rack", "to_rack", "hour", "source"),
        *("crossed_level", "bytes", "estimated_bytes", "unsized_offsets", "cost"),
    ),
    "what_if": (
        *("cluster", "group", "interval_start", "interval_end", "hours", "layout_group"),
        *("scenario", "local_bytes", "crossing_bytes", "unknown_bytes", "cost_per_month"),
        *("moves", "leader_moves", "shared_topics"),
    ),
    "ranking": (
        *("cluster", "group", "interval_start", "interval_end", "hours", "cost_per_month_now"),
        *("cost_per_month_after", "saving_per_month", "locality_now", "locality_after"),
        *("scenario", "change"),
    ),
    "rejected_rows": ("table", "reason"),
    "flows_hourly": (
        *("cluster", "kind", "client", "group", "groups", "from_rack", "to_rack", "hour"),
        *("rack_source", "network_rack", "bytes"),
    ),
    "replaced_hourly": (
        "cluster",
        "kind",
        "group",
        "from_rack",
        "to_rack",
        "hour",
        "bytes",
        "cost",
    ),
}
"""The tables of a report, and the columns that it reads. It needs the first of them."""

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Period:
    """The time [since, until), both aware; None is no limit. Raises InputError if it is empty."""

    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise InputError(
                f"the period ends ({self.until.isoformat()}) before it begins "
                f"({self.since.isoformat()}): give a later end"
            )


def find_tables(folder: str | None, paths: Mapping[str, str | None]) -> dict[str, str]:
    """Return name to path of the tables in ``folder``; ``paths`` override them.

    Raise InputError if there is no hourly table.
    """
    tables = {name: path for name, path in paths.items() if path}
    if folder is not None:
        for name in COLUMNS:
            path = f"{folder.rstrip('/')}/{name}"
            if name not in tables and _exists(path):
                tables[name] = path
    if "hourly" not in tables:
        problem = (
            "nothing to report on" if folder is None else f"there is no hourly table in {folder}"
        )
        raise InputError(
            f"{problem}: give the FOLDER of `rackward traffic run`, or the table with --hourly"
        )
    return tables


def read_summary(
    paths: Mapping[str, str], period: Period, owners: Sequence[OwnerRule] | None = None
) -> Summary:
    """Return the sums over all hours that begin in ``period``, and over all what-if intervals that
    overlap it.

    With ``owners`` the bill has a line for each group and topic. Raise InputError.
    """
    tables = {name: InputTable(name, path) for name, path in paths.items()}
    hourly, replaced = tables["hourly"], tables.get("replaced_hourly")
    in_period = _condition(("hour", ">=", period.since), ("hour", "<", period.until))
    overlap = _condition(("interval_end", ">", period.since), ("interval_start", "<", period.until))
    hours = hourly.sums(("cluster", "kind", "hour"), _TRAFFIC, in_period)
    pairs = hourly.sums(("cluster", "kind", "from_rack", "to_rack"), _TRAFFIC, in_period)
    consumed = in_period & pc.equal(pc.field("kind"), "consume")
    groups = {
        (row["cluster"], NO_GROUP if row["group"] is None else row["group"]): _traffic(row)
        for row in hourly.sums(("cluster", "group"), _TRAFFIC, consumed)
    }
    for row in pairs:
        if name := _OTHERS.get(row["kind"]):
            key = row["cluster"], name
            groups[key] = groups.get(key, Traffic()) + _traffic(row)
    scenarios: _Scenarios = {}
    changes: dict[GroupKey, Change] = {}
    rejected_rows = None
    ratios = {} if replaced is None else cost_ratios(hourly, replaced, consumed)
    if "what_if" in tables:
        scenarios = _scenarios(tables["what_if"], overlap, ratios)
    if "ranking" in tables:
        as_is = scenarios.get("as_is", {})
        changes = recommended_changes(tables["ranking"], overlap, as_is, ratios)
    if "rejected_rows" in tables:
        one = pc.scalar(pa.scalar(1, pa.int64()))
        counts = tables["rejected_rows"].sums(("table", "reason"), {"rows": one}, _condition())
        rejected_rows = tuple(
            sorted(
                (RejectedRows(**row) for row in counts),
                key=lambda each: (-each.rows, each.table, each.reason),
            )
        )
    intervals = [row for of_scenario in scenarios.values() for row in of_scenario.values()]
    clusters = _cluster_hours(hours)
    hours_of = {each.cluster: each.hours for each in clusters}
    # A group that has a change but read nothing in the period has no traffic.
    # With a what-if all costs are extrapolated: what has none is read by clients that only flow
    # records know.
    least_hours = 1 if changes else MIN_HOURS_TO_EXTRAPOLATE
    totals = [
        _group_total(
            key,
            groups.get(key, Traffic()),
            changes.get(key),
            hours_of.get(key[0], 0),
            least_hours,
        )
        for key in sorted({*groups, *changes})
    ]
    ordered = sorted(totals, key=_group_order)
    names = (*_OTHERS.values(), NO_GROUP)
    return Summary(
        clusters=clusters,
        pairs=_pair_totals(pairs),
        hours=tuple(
            sorted(
                (
                    HourTotal(row["cluster"], row["kind"], row["hour"], _traffic(row))
                    for row in hours
                ),
                key=lambda each: (each.cluster, each.kind, each.hour),
            )
        ),
        groups=tuple(each for each in ordered if each.group not in names),
        others=tuple(each for each in ordered if each.group in names),
        scenarios=_scenario_totals(scenarios),
        rejected_rows=rejected_rows,
        what_if_since=min((row["interval_start"] for row in intervals), default=None),
        what_if_until=max((row["interval_end"] for row in intervals), default=None),
        bill=_bill(hourly, in_period, owners),
        flows=read_flows(tables["flows_hourly"], hourly, replaced, in_period)
        if "flows_hourly" in tables
        else None,
    )


# ---- Traffic by pair of racks, by hour and by group.

_OTHERS = {"produce": PRODUCERS, "replicate": REPLICATION}

_LEVEL, _BYTES = pc.field("crossed_level"), pc.field("bytes")
_ZERO = pa.scalar(0, pa.int64())


def _bytes_of_source(name: str) -> pc.Expression:
    is_named = pc.equal(pc.coalesce(pc.field("source"), pc.scalar("")), name)
    return pc.if_else(is_named, _BYTES, _ZERO)


_TRAFFIC: Mapping[str, pc.Expression] = {
    "local_bytes": pc.if_else(pc.equal(_LEVEL, 0), _BYTES, _ZERO),
    "crossing_bytes": pc.if_else(pc.greater(_LEVEL, 0), _BYTES, _ZERO),
    "unknown_bytes": pc.if_else(pc.is_null(_LEVEL), _BYTES, _ZERO),
    "estimated_bytes": pc.field("estimated_bytes"),
    "unsized_offsets": pc.field("unsized_offsets"),
    "cost": pc.field("cost"),
    "assumed_bytes": _bytes_of_source("assumed"),
    "measured_bytes": _bytes_of_source("measured"),
}
"""The fields of :class:`Traffic` from columns of the table HOURLY."""


def _traffic(row: Mapping[str, Any]) -> Traffic:
    return Traffic(**{name: row[name] or 0 for name in _TRAFFIC})


def _pair_totals(rows: Rows) -> tuple[PairTotal, ...]:
    """Return the pairs, sorted, unknown racks last: an empty rack is unknown, as null is."""
    sums: dict[tuple[str, str, str | None, str | None], Traffic] = {}
    for row in rows:
        key = (row["cluster"], row["kind"], row["from_rack"] or None, row["to_rack"] or None)
        sums[key] = sums.get(key, Traffic()) + _traffic(row)
    ordered = sorted(
        sums, key=lambda key: (*key[:2], key[2] is None, key[2] or "", key[3] is None, key[3] or "")
    )
    return tuple(PairTotal(*key, sums[key]) for key in ordered)


def _bill(
    hourly: InputTable, period: pc.Expression, owners: Sequence[OwnerRule] | None
) -> tuple[BillLine, ...]:
    detail = () if owners is None else ("group", "topic")
    keys = ("cluster", "kind", "from_rack", "to_rack", *detail)
    values = {"bytes": _BYTES, "cost": pc.field("cost")}
    rows = hourly.sums(keys, values, period & pc.greater(_LEVEL, 0))
    rows.sort(key=lambda row: [row[name] or "" for name in keys])
    return in_cents(
        BillLine(
            **{name: row[name] for name in ("cluster", "kind", "from_rack", "to_rack", "bytes")},
            group=row.get("group"),
            topic=row.get("topic"),
            team=team_of(owners or (), row["kind"], row),
            cost=row["cost"] or 0.0,
        )
        for row in rows
    )


def _cluster_hours(hours: Rows) -> tuple[ClusterHours, ...]:
    seen: dict[str, set[datetime]] = {}
    for row in hours:
        seen.setdefault(row["cluster"], set()).add(row["hour"])
    return tuple(
        ClusterHours(name, len(times), min(times), max(times))
        for name, times in sorted(seen.items())
    )


def _group_total(
    key: GroupKey, traffic: Traffic, change: Change | None, hours: int, least_hours: int
) -> GroupTotal:
    per_month: float | None = None
    if change is not None:
        per_month = change.cost_per_month_now
    elif hours >= least_hours or traffic.cost == 0:
        per_month = traffic.cost * HOURS_PER_MONTH / hours if hours else 0.0
    return GroupTotal(*key, traffic, per_month, change)


def _group_order(group: GroupTotal) -> tuple[float, float, float, int, str, str]:
    read = group.traffic
    return (
        *(-group.saving, -(group.cost_per_month or 0.0), -read.cost, -read.bytes),
        *(group.cluster, group.group),
    )


# ---- The what-if: scenarios, and the change of each group.

GroupKey = tuple[str, str]
"""Cluster and group."""
_SECONDS = pc.max_element_wise(
    pc.multiply(pc.coalesce(pc.field("hours"), pc.scalar(0.0)), pc.scalar(3600.0)),
    # At least a microsecond, so that no sum is 0.
    pc.scalar(1e-6),
)


def _weighed(name: str) -> pc.Expression:
    """Return a cost per month times the time that snapshots of the interval cover."""
    return pc.multiply(pc.coalesce(pc.field(name), pc.scalar(0.0)), _SECONDS)


_Scenarios = Mapping[str, Mapping[GroupKey, Mapping[str, Any]]]
"""Scenario to group to its sums."""


def _scenarios(
    table: InputTable, condition: pc.Expression, ratios: Mapping[GroupKey, float | None]
) -> _Scenarios:
    """Return the rows of WHAT_IF, added up, with costs multiplied by ``ratios``."""
    keys = ("scenario", "cluster", "group")
    values = {"seconds": _SECONDS, "cost": _weighed("cost_per_month")} | {
        name: pc.field(name) for name in ("local_bytes", "crossing_bytes", "unknown_bytes")
    }
    sums = table.sums(keys, values, condition, first="interval_start", last="interval_end")
    # Partitions move once, not in every interval.
    latest = table.latest(
        keys, ("moves", "leader_moves", "shared_topics", "layout_group"), condition, sums
    )
    scenarios: dict[str, dict[GroupKey, dict[str, Any]]] = {}
    for row in sums:
        scenario, *group = (row[name] for name in keys)
        ratio = ratios.get((group[0], group[1]))
        row["cost"] *= 1.0 if ratio is None else ratio
        of_scenario = scenarios.setdefault(scenario, {})
        of_scenario[group[0], group[1]] = row | latest[scenario, *group]
    return scenarios


def _scenario_totals(scenarios: _Scenarios) -> tuple[ScenarioTotal, ...]:
    """Return the total of each scenario. A group without it counts with its current cost."""
    as_is = scenarios.get("as_is", {})
    names = [name for name in SCENARIOS if name in scenarios]
    totals = []
    for name in [*names, *sorted(scenarios.keys() - {*SCENARIOS})]:
        groups = scenarios[name]
        unchanged = [as_is[key] for key in sorted(as_is) if key not in groups]
        rows = [groups[key] for key in sorted(groups)]
        counted = [*rows, *unchanged]
        totals.append(
            ScenarioTotal(
                scenario=name,
                groups=len(rows),
                groups_as_is=len(unchanged),
                cost_per_month=sum(row["cost"] / row["seconds"] for row in counted),
                local_bytes=_sum(counted, "local_bytes"),
                crossing_bytes=_sum(counted, "crossing_bytes"),
                unknown_bytes=_sum(counted, "unknown_bytes"),
                moves=_sum(rows, "moves"),
                leader_moves=_sum(rows, "leader_moves"),
            )
        )
    return tuple(totals)


def _sum(rows: Sequence[Mapping[str, Any]], name: str) -> int:
    return sum(row[name] or 0 for row in rows)


def recommended_changes(
    ranking: InputTable,
    condition: pc.Expression,
    as_is: Mapping[GroupKey, Mapping[str, Any]],
    ratios: Mapping[GroupKey, float | None],
) -> dict[GroupKey, Change]:
    """Return the recommended change of each group in the table RANKING.

    Costs are multiplied by ``ratios``; a group whose ratio is None is left out. Shared topics and
    layout groups are those of the scenario ``as_is``; without it they are unknown.
    """
    keys = ("cluster", "group")
    costs = ("cost_per_month_now", "cost_per_month_after", "saving_per_month")
    values = {"seconds": _SECONDS} | {name: _weighed(name) for name in costs}
    sums = ranking.sums(keys, values, condition, last="interval_end")
    latest = ranking.latest(
        keys, ("locality_now", "locality_after", "scenario", "change"), condition, sums
    )
    changes = {}
    for row in sums:
        key = row["cluster"], row["group"]
        newest, layout, ratio = latest[key], as_is.get(key, {}), ratios.get(key, 1.0)
        if ratio is None:
            continue
        changes[key] = Change(
            **{name: row[name] / row["seconds"] * ratio for name in costs},
            locality_now=newest["locality_now"],
            locality_after=newest["locality_after"],
            scenario=newest["scenario"] or "",
            text=newest["change"] or "",
            shared_topics=layout.get("shared_topics") or 0,
            hours=row["seconds"] / 3600,
            layout_group=layout.get("layout_group") or "",
        )
    return changes


# ---- Tables.


class InputTable:
    """A Delta table of the pipeline, or the same in memory.

    ``source`` is a path, or a URL that the package deltalake supports (``s3://``, ``gs://``,
    ``abfss://``, ``file://``), or an Arrow table. Raises InputError if it cannot be opened or lacks
    a column.
    """

    def __init__(self, name: str, source: str | pa.Table) -> None:
        self._name = name
        if isinstance(source, pa.Table):
            self._path = "memory"
            self._dataset = dataset(source)
        else:
            self._path = _mask_credentials(source)
            try:
                self._dataset = _open_table(source).to_pyarrow_dataset()
            except (OSError, ValueError) as error:
                raise self._read_error(error) from error
        present = self._dataset.schema.names
        if missing := [column for column in COLUMNS[name] if column not in present]:
            raise InputError(
                f"the {name} table in {self._path} has no column {', '.join(missing)}: is it the "
                "output of rackward traffic?"
            )

    def sums(
        self,
        keys: Sequence[str],
        values: Mapping[str, pc.Expression],
        condition: pc.Expression,
        *,
        first: str | None = None,
        last: str | None = None,
    ) -> Rows:
        """Return the sums of ``values`` by ``keys``, and the least of ``first`` and the largest of
        ``last``.

        Null is a key; a null value is not added. Rows are read in the order of the files, so that
        the same table gives exactly the same sums. Memory grows with the number of keys.
        """
        bounds = {name: how for name, how in ((first, "hash_min"), (last, "hash_max")) if name}
        columns = {name: pc.field(name) for name in (*keys, *bounds)} | dict(values)
        aggregates = [
            *((name, "hash_sum", None, name) for name in values),
            *((name, how, None, name) for name, how in bounds.items()),
        ]
        options = acero.AggregateNodeOptions(aggregates, keys=list(keys))
        return self._read(columns, condition, acero.Declaration("aggregate", options))

    def latest(
        self,
        keys: Sequence[str],
        columns: Sequence[str],
        condition: pc.Expression,
        sums: Rows,
    ) -> dict[tuple[Any, ...], dict[str, Any]]:
        """Return ``columns`` of each key's latest interval, whose end is in ``sums``."""
        ends = {tuple(row[name] for name in keys): row["interval_end"] for row in sums}
        of_ends = pc.field("interval_end").isin(pa.array(sorted({*ends.values()}), _TIME))
        wanted = {name: pc.field(name) for name in (*keys, "interval_end", *columns)}
        found = {}
        for row in self._read(wanted, condition & of_ends):
            key = tuple(row[name] for name in keys)
            if row["interval_end"] == ends[key]:
                found[key] = {name: row[name] for name in columns}
        return found

    def _read(
        self,
        columns: Mapping[str, pc.Expression],
        condition: pc.Expression,
        *then: acero.Declaration,
    ) -> Rows:
        """Return ``columns`` of the rows for which ``condition`` holds, after the step ``then``."""
        schema = columns_schema(OUTPUT_TABLES[self._name])
        names = list(COLUMNS[self._name])
        casts = [pc.field(name).cast(schema.field(name).type) for name in names]
        scan = acero.ScanNodeOptions(self._dataset, columns=names, filter=condition)
        steps = [
            acero.Declaration("scan", scan),
            # A scan reads files that may have such rows.
            acero.Declaration("filter", acero.FilterNodeOptions(condition)),
            acero.Declaration("project", acero.ProjectNodeOptions(casts, names)),
            acero.Declaration(
                "project", acero.ProjectNodeOptions(list(columns.values()), list(columns))
            ),
            *then,
        ]
        try:
            table = acero.Declaration.from_sequence(steps).to_table(use_threads=False)
        except (OSError, ValueError) as error:
            raise self._read_error(error) from error
        rows: Rows = table.to_pylist()
        return rows

    def _read_error(self, error: Exception) -> InputError:
        reason = _mask_credentials(" ".join(str(error).split()))
        return InputError(f"cannot read the {self._name} table in {self._path}: {reason}")


_TIME = pa.timestamp("us", tz="UTC")


def _condition(*parts: tuple[str, str, datetime | None]) -> pc.Expression:
    """Return a condition of columns, each ``>=``, ``>`` or ``<`` a time; None always holds."""
    condition = pc.scalar(True)
    compare = {">=": pc.greater_equal, ">": pc.greater, "<": pc.less}
    for column, comparison, time in parts:
        if time is not None:
            condition &= compare[comparison](pc.field(column), pa.scalar(time, _TIME))
    return condition


def _exists(path: str) -> bool:
    """Return whether there is a table. Raise InputError if that cannot be told."""
    try:
        _open_table(path)
    except FileNotFoundError:
        return False
    except (OSError, ValueError) as error:
        reason = _mask_credentials(" ".join(str(error).split()))
        raise InputError(f"cannot read {_mask_credentials(path)}: {reason}") from error
    return True


def _open_table(path: str) -> DeltaTable:
    """Return the table at a path or URL. Raise MissingPackageError, FileNotFoundError if
    there is none, or another OSError or ValueError."""
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError
    except ImportError as error:
        raise MissingPackageError("deltalake") from error
    try:
        return DeltaTable(path)
    except TableNotFoundError as error:
        raise FileNotFoundError(f"there is no Delta table ({error})") from error
    except DeltaError as error:
        raise OSError(str(error)) from error


def _mask_credentials(text: str) -> str:
    return re.sub(r"(?<=://)[^/@\s]+@", "***@", text)


# ---- Measured flows: beside the estimate, clients in no group, and members elsewhere.

_BYTE_SUM = {"bytes": _BYTES}
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
    by_hour = flows.sums((*pairs, "hour"), _BYTE_SUM, period)
    seen = {(row["cluster"], row["hour"]) for row in by_hour}
    if not seen:
        return None
    rows = hourly.sums((*pairs, "hour", "source"), _BYTE_SUM, period)
    estimated = [] if replaced is None else replaced.sums((*pairs, "hour"), _BYTE_SUM, period)
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
        for key, size in _added(flows.sums(keys, _BYTE_SUM, condition), keys).items():
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
        for key, size in _added(flows.sums(keys, _BYTE_SUM, condition), keys).items():
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
