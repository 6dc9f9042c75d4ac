"""The options of a run, and its folder: a small JSON file per workload, strategy and repetition.

Files are indented and in the order of their fields, so that two runs can be compared with diff.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from rack_traffic.atomic_write import write_atomically
from rackward.bench import BenchError
from rackward.bench.figures import FORMAT, Result
from rackward.bench.strategies import STRATEGIES, select_strategies
from rackward.bench.workloads import WORKLOADS, select_workloads
from rackward.config_files import convert, load
from rackward.measurement.strategies import Strategy

RUN_FILE = "run.json"
SHORT_WORKLOAD = "even"

Kind = TypeVar("Kind", bound=msgspec.Struct)

Keys = Annotated[list[str], Meta(min_length=1, description="a list of keys")]


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is run, and how.

    workloads, strategies
        Their keys; None: all.
    rate
        MB per second that are written, and read by each group.
    seconds, step_seconds
        Of reading: of a workload at rest, and after each event of another one.
    groups_at_once
        Of all strategies that run at the same time on one cluster, together.
    price
        Of a GB across racks, for the cost in the report.
    """

    workloads: Keys | None = None
    strategies: Keys | None = None
    repetitions: Annotated[int, Meta(ge=1, le=20, description="a number from 1 to 20")] = 1
    seed: Annotated[int, Meta(ge=0, description="a number of 0 or more")] = 1
    partitions: Annotated[int, Meta(ge=6, le=600, description="a number from 6 to 600")] = 36
    rate: Annotated[float, Meta(gt=0, le=20, description="a number up to 20")] = 2.0
    seconds: Annotated[float, Meta(ge=1, le=3600, description="a number from 1 to 3600")] = 20.0
    step_seconds: Annotated[float, Meta(ge=1, le=600, description="a number from 1 to 600")] = 4.0
    groups_at_once: Annotated[int, Meta(ge=1, le=12, description="a number from 1 to 12")] = 12
    price: Annotated[float, Meta(ge=0, description="a price of 0 or more")] = 0.02

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown key."""
        try:
            select_workloads(self.workloads)
            select_strategies(self.strategies)
        except BenchError as error:
            raise ValueError(str(error)) from error

    def short(self) -> Options:
        """Return the options of the short form: one workload, each strategy once."""
        return msgspec.structs.replace(self, workloads=[SHORT_WORKLOAD], repetitions=1)

    def same_measurement(self, other: Options) -> bool:
        """Return whether results with these options can be compared with those of ``other``."""
        return msgspec.structs.replace(self, workloads=None, strategies=None, repetitions=1) == (
            msgspec.structs.replace(other, workloads=None, strategies=None, repetitions=1)
        )


def read_options(path: Path) -> Options:
    """Return the options in a YAML, TOML or JSON file. Raises ConfigError."""
    return convert(load(path), Options, str(path))


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run: its options, and on what it was made. ``began`` is a date; ``load`` is the number of
    processes that wanted to run in the minute before."""

    options: Options
    command: str
    began: str
    versions: dict[str, str]
    cpus: int
    load: float
    format: int = FORMAT


class ResultFolder:
    """A folder of results. Raises BenchError for files that cannot be read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, run: Run) -> None:
        """Write the run, unless its results are continued: then what is run may change only.

        Raises BenchError if the results that are there were made with other options, or other
        versions.
        """
        path = self.folder / RUN_FILE
        if path.exists():
            before = self.run()
            if not run.options.same_measurement(before.options):
                raise BenchError(
                    f"the results in {self.folder} were made with other options: give another "
                    f"folder with --output, or the options of {path}"
                )
            if run.versions != before.versions:
                raise BenchError(
                    f"the results in {self.folder} were made with other versions: give another "
                    f"folder with --output; {path} has the versions"
                )
            run = msgspec.structs.replace(before, options=run.options, command=run.command)
        self.folder.mkdir(parents=True, exist_ok=True)
        _write(path, run)

    def run(self) -> Run:
        """Return the last run."""
        return _read(self.folder / RUN_FILE, Run)

    def path(self, workload: str, strategy: str, repetition: int) -> Path:
        """Return the file of a result."""
        return self.folder / workload / f"{strategy}.{repetition}.json"

    def missing(
        self, workload: str, strategies: Sequence[Strategy], repetition: int
    ) -> list[Strategy]:
        """Return those of the strategies that have no result yet."""
        return [
            each for each in strategies if not self.path(workload, each.key, repetition).exists()
        ]

    def write(self, result: Result) -> None:
        """Write a result, whole or not at all."""
        path = self.path(result.workload, result.strategy, result.repetition)
        path.parent.mkdir(exist_ok=True)
        _write(path, result)

    def read(self) -> Mapping[tuple[str, str], list[Result]]:
        """Return the results by workload and strategy, both in their usual order."""
        found: dict[tuple[str, str], list[Result]] = {}
        for workload in WORKLOADS:
            for strategy in STRATEGIES:
                paths = sorted((self.folder / workload).glob(f"{strategy}.*.json"))
                if paths:
                    found[workload, strategy] = [_read(path, Result) for path in paths]
        return found


def _write(path: Path, value: msgspec.Struct) -> None:
    with write_atomically(path) as file:
        file.write(msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")


def _read(path: Path, kind: type[Kind]) -> Kind:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise BenchError(f"{path} cannot be read: {reason}") from error
