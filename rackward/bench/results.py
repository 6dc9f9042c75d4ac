"""The options of a run, and its results: values, and the JSON Lines file that holds them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from rack_traffic.atomic_write import write_atomically
from rackward.bench import BenchError
from rackward.bench.strategies import STRATEGIES, select_strategies
from rackward.bench.workloads import WORKLOADS, select_workloads
from rackward.config_files import convert, load

RESULTS_FILE = "results.jsonl"
FORMAT = 2

SECONDS_PER_MONTH = 730 * 3600
"""Cloud providers bill a month as 730 hours."""

SHORT_WORKLOAD = "even"

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


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="run", tag_field="kind"):
    """A run: its options, and on what it was made. ``began`` is a date; ``load`` is the number of
    processes that wanted to run in the minute before."""

    options: Options
    command: str
    began: str
    versions: dict[str, str]
    cpus: int
    load: float
    format: int = FORMAT


Matrix = dict[str, dict[str, int]]
"""Rack of the readers, or of the producers, to rack of the brokers to bytes."""


def total_of(matrix: Matrix) -> int:
    """Return all bytes."""
    return sum(size for row in matrix.values() for size in row.values())


def crossing_of(matrix: Matrix) -> int:
    """Return the bytes between clients in one rack and brokers in another."""
    return sum(
        size for client, row in matrix.items() for rack, size in row.items() if rack != client
    )


class StepResult(msgspec.Struct, frozen=True):
    """A strategy in one step.

    crossing, optimum
        Partitions that were read from another rack when the step ended, and the minimum for a
        balanced assignment of these members to these leaders.
    moved
        Partitions taken from members that stayed.
    min_partitions, max_partitions
        Per member, in the group in which they differ most.
    """

    event: str
    crossing: int
    optimum: int
    moved: int
    bytes: int
    crossing_bytes: int
    predicted_bytes: int
    predicted_crossing_bytes: int
    min_partitions: int
    max_partitions: int


class Result(msgspec.Struct, frozen=True, tag="result", tag_field="kind"):
    """One strategy under one workload, once.

    produced_bytes, log_bytes
        Values written, and what the logs grew by (with headers of records and batches).
    written, predicted_written_share
        What brokers received from producers that choose partitions, by the rack of the producer
        and of the broker, and the predicted share across racks.
    groups, members, partitions
        Numbers; members are those of all groups together at the start.
    bytes
        Sent to the members, as brokers count them.
    spread
        Bytes of the member that reads most, divided by the mean over members, in the worst step.
    revoked
        Partitions that members had to give up, including those that they got back at once.
    rebalances
        After the start.
    records_read
        Including those that were read again.
    longest_pause
        Seconds for which records of a partition waited while none of it was read, at most.
    """

    workload: str
    strategy: str
    repetition: int
    seed: int
    seconds: float
    produced_bytes: int
    log_bytes: int
    groups: int
    members: int
    partitions: int
    bytes: Matrix
    steps: list[StepResult]
    spread: float
    revoked: int
    rebalances: int
    records_read: int
    longest_pause: float
    written: Matrix = {}
    predicted_written_share: float = 0.0

    @property
    def total_bytes(self) -> int:
        """All bytes sent to the members."""
        return total_of(self.bytes)

    @property
    def crossing_bytes(self) -> int:
        """Bytes sent to members in another rack."""
        return crossing_of(self.bytes)

    @property
    def written_crossing_share(self) -> float:
        """Share (0 to 1) of the producers' bytes that crossed racks."""
        return crossing_of(self.written) / total_of(self.written) if self.written else 0.0

    @property
    def crossing_share(self) -> float:
        """Share (0 to 1) of the bytes that crossed racks."""
        return self.crossing_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def predicted_crossing_share(self) -> float:
        """The same, of the prediction."""
        whole = sum(step.predicted_bytes for step in self.steps)
        crossing = sum(step.predicted_crossing_bytes for step in self.steps)
        return crossing / whole if whole else 0.0

    @property
    def overhead(self) -> float:
        """Bytes sent beyond those of the logs that all groups read, as a share of the latter."""
        expected = self.log_bytes * self.groups
        return self.total_bytes / expected - 1 if expected else 0.0

    @property
    def moved(self) -> int:
        """Partitions taken from members that stayed, over all steps."""
        return sum(step.moved for step in self.steps)

    def cost_per_month(self, price_per_gb: float) -> float:
        """Return the cost of a month at the measured rate of bytes across racks."""
        return self.crossing_bytes / self.seconds * SECONDS_PER_MONTH / 1e9 * price_per_gb

    @property
    def partition_range(self) -> tuple[int, int]:
        """Partitions per member, minimum and maximum, in the step where they differ most."""
        return widest((step.min_partitions, step.max_partitions) for step in self.steps)


def widest(ranges: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """Return the range of which minimum and maximum differ most."""
    return max(ranges, key=lambda loads: loads[1] - loads[0])


class ResultFolder:
    """The results in ``folder``, in one JSON Lines file: the run, then a line per result.

    Lines are in the order of workloads, strategies and repetitions, so that ``diff`` compares two
    runs. Raises BenchError for a file that is not valid.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / RESULTS_FILE
        self.run: Run | None = None
        self._results: dict[tuple[str, str, int], Result] = {}
        if self.path.exists():
            self._read()

    def begin(self, run: Run) -> None:
        """Write the run, unless its results are continued: then what is run may change only.

        Raises BenchError if the results that are there were made with other options, or other
        versions.
        """
        if self.run is not None:
            if not run.options.same_measurement(self.run.options):
                raise BenchError(
                    f"the results in {self.path} were made with other options: give another "
                    "folder with --output, or the options in the first line of the file"
                )
            if run.versions != self.run.versions:
                raise BenchError(
                    f"the results in {self.path} were made with other versions: give another "
                    "folder with --output; the first line of the file has the versions"
                )
            run = msgspec.structs.replace(self.run, options=run.options, command=run.command)
        self.run = run
        self._write()

    def has(self, workload: str, strategy: str, repetition: int) -> bool:
        """Return whether there is this result."""
        return (workload, strategy, repetition) in self._results

    def add(self, results: Sequence[Result]) -> None:
        """Add results of the run, and write the file: whole or not at all."""
        for result in results:
            self._results[result.workload, result.strategy, result.repetition] = result
        self._write()

    def results(self) -> Mapping[tuple[str, str], list[Result]]:
        """Return the results by workload and strategy, both in their usual order."""
        found: dict[tuple[str, str], list[Result]] = {}
        for result in self._ordered():
            found.setdefault((result.workload, result.strategy), []).append(result)
        return found

    def _ordered(self) -> list[Result]:
        workloads, strategies = list(WORKLOADS), list(STRATEGIES)
        return sorted(
            self._results.values(),
            key=lambda result: (
                workloads.index(result.workload),
                strategies.index(result.strategy),
                result.repetition,
            ),
        )

    def _read(self) -> None:
        try:
            first, *others = self.path.read_bytes().splitlines()
            self.run = msgspec.json.decode(first, type=Run)
            for line in others:
                result = msgspec.json.decode(line, type=Result)
                select_workloads([result.workload])
                select_strategies([result.strategy])
                self._results[result.workload, result.strategy, result.repetition] = result
        except (OSError, ValueError, BenchError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise BenchError(f"{self.path} cannot be read: {reason}") from error

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with write_atomically(self.path) as file:
            file.write(msgspec.json.Encoder().encode_lines([self.run, *self._ordered()]))
