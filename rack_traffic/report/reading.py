"""Where the tables of a report are, and a summary of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rack_traffic.report import tables
from rack_traffic.report.errors import ReportInputError
from rack_traffic.report.model import Summary
from rack_traffic.report.summary import hourly_sums, set_aside_counts, summarise
from rack_traffic.report.tables import InputTable, Period, folder_exists
from rack_traffic.report.what_if_totals import changes, what_if_totals

_NAMES = ("hourly", "what_if", "ranking", "set_aside")
_WRITTEN_LAST = ("summary", "progress")
"""What a batch and a stream of the pipeline write whatever they set aside."""


@dataclass(frozen=True, slots=True)
class Sources:
    """A path or URI for each table; None is a table that is not there.

    ``checked`` tells that rows were checked, so that no table of rows set aside means none.
    """

    hourly: str
    what_if: str | None = None
    ranking: str | None = None
    set_aside: str | None = None
    checked: bool = False


def sources_in(folder: str | None, given: Mapping[str, str | None]) -> Sources:
    """The tables in the output folder of the pipeline, each in a folder of its own name, but for
    those that are ``given`` by name.

    Raises ReportInputError where there is no hourly table.
    """
    found = dict.fromkeys(_NAMES) | {name: where for name, where in given.items() if where}
    if folder is not None:
        for name in _NAMES:
            where = f"{folder.rstrip('/')}/{name}"
            if found[name] is None and folder_exists(where):
                found[name] = where
    if (hourly := found.pop("hourly")) is None:
        where = (
            "nothing to report on" if folder is None else f"there is no hourly table in {folder}"
        )
        raise ReportInputError(
            f"{where}: give the FOLDER that the pipeline wrote, or the table's own with --hourly"
        )
    checked = folder is not None and any(
        folder_exists(f"{folder.rstrip('/')}/{name}") for name in _WRITTEN_LAST
    )
    return Sources(hourly, found["what_if"], found["ranking"], found["set_aside"], checked=checked)


def read_summary(sources: Sources, period: Period) -> Summary:
    """Read and add up. Hours count that begin in ``period``, and what-ifs whose interval meets it.

    Raises ReportInputError.
    """
    within = ("hour", ">=", period.since), ("hour", "<", period.until)
    meets = ("interval_end", ">", period.since), ("interval_start", "<", period.until)
    hourly = hourly_sums(InputTable("hourly", sources.hourly, tables.HOURLY).batches(*within))
    what_if = ranked = set_aside = None
    if sources.what_if is not None:
        table = InputTable("what-if", sources.what_if, tables.WHAT_IF)
        what_if = what_if_totals(table.batches(*meets))
    if sources.ranking is not None:
        table = InputTable("ranking", sources.ranking, tables.RANKING)
        shared = what_if.shared_topics if what_if else {}
        ranked = changes(table.batches(*meets), shared)
    if sources.set_aside is not None:
        table = InputTable("set-aside", sources.set_aside, tables.SET_ASIDE)
        set_aside = set_aside_counts(table.batches())
    elif sources.checked:
        set_aside = ()
    return summarise(hourly, what_if, ranked, set_aside)
