"""The command of ``make benchmarks``: times assignments and prints a table."""

from __future__ import annotations

import argparse
import json
import multiprocessing

from benchmarks import bytes_to_bytes
from benchmarks.harness import in_new_process
from benchmarks.measure import measure, measure_peer
from benchmarks.shapes import SHAPES, STEPS, Shape

INCREMENTAL_FACTOR = 1.5
"""Limit of an incremental assignment as a multiple of the limit of a first one."""

MAX_PEER_PARTITIONS = 100_000
"""Groups with more partitions are not timed with kafka-python's assignor."""

TIMEOUT = 600.0


def time_limit(shape: Shape, step: str) -> float | None:
    """Return the limit of the step in milliseconds, None if it has none."""
    if shape.max_milliseconds is None:
        return None
    return shape.max_milliseconds * (1 if step == "start" else INCREMENTAL_FACTOR)


def format_row(shape: Shape, name: str, step: str, figures: dict[str, float], peer: str) -> str:
    """Return one row of the table."""
    limit = time_limit(shape, step)
    over_time = limit is not None and figures["min"] > limit
    over_memory = shape.max_megabytes is not None and figures["megabytes"] > shape.max_megabytes
    off_rack = f"{figures['off_rack']} of {shape.partitions}"
    return (
        f"{name:<38}{step:<13}{figures['min']:>9.1f}{figures['median']:>9.1f}"
        f"{'' if limit is None else f'{limit:.0f}':>7}{figures['megabytes']:>7.0f}"
        f"  {off_rack:<18}{peer}{'  OVER TIME' if over_time else ''}"
        f"{'  OVER MEMORY' if over_memory else ''}"
    )


def main() -> None:
    """Print a table, each row as soon as it is measured."""
    parser = argparse.ArgumentParser(
        prog="make benchmarks ARGS=...",
        description="Milliseconds of CPU per assignment, from and to plain Python lists: "
        "minimum and median of several runs, the limit, peak memory of the process in MB, and the "
        "time of kafka-python's CooperativeSticky for the same input. Then, in turns with "
        "franz-go, the group leader's whole work from bytes to bytes (--only bytes).",
    )
    parser.add_argument("--only", default="", help="only shapes whose names contain this text")
    parser.add_argument("--repeat", type=int, default=11, help="runs of each step (default: 11)")
    parser.add_argument(
        "--no-peer", action="store_true", help="time neither kafka-python nor franz-go"
    )
    parser.add_argument(
        "--peer-seconds", type=float, default=60, help="time limit of kafka-python (default: 60)"
    )
    parser.add_argument("--json", metavar="FILE", help="also write all figures to FILE")
    options = parser.parse_args()
    rows: list[dict[str, object]] = []
    print(f"{'':<51}{'min':>9}{'median':>9}{'limit':>7}{'MB':>7}  off-rack")
    for name, shape in SHAPES.items():
        if options.only not in name:
            continue
        skip_peer = options.no_peer or shape.partitions > MAX_PEER_PARTITIONS
        for step in STEPS:
            figures = in_new_process(measure, name, step, options.repeat, timeout=TIMEOUT)
            row, peer = {"shape": name, "step": step, **figures}, ""
            if not skip_peer:
                try:
                    row["kafka_python"] = milliseconds = in_new_process(
                        measure_peer, name, step, timeout=options.peer_seconds
                    )
                    peer = (
                        f"kafka-python {milliseconds:.0f} ms, "
                        f"{milliseconds / figures['min']:.0f} times"
                    )
                except multiprocessing.TimeoutError:
                    skip_peer, peer = True, f"kafka-python: over {options.peer_seconds:.0f} s"
            rows.append(row)
            print(format_row(shape, name, step, figures, peer), flush=True)
    rows += bytes_to_bytes.print_table(
        options.only, 3 * options.repeat, peer=not options.no_peer, timeout=TIMEOUT
    )
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=2)


if __name__ == "__main__":
    main()
