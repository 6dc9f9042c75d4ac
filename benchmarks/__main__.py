"""The command behind ``make benchmarks``."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

from benchmarks.shapes import SHAPES, STEPS, Shape

INCREMENTAL = 1.5
"""What an incremental assignment may take of the time that a first one may."""


def run(name: str, step: str, repeat: int, who: str, seconds: float) -> dict[str, Any] | None:
    """One measurement in a process of its own; None where it takes longer than ``seconds``."""
    command = [sys.executable, "-m", "benchmarks.measure", name, step, str(repeat), who]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=True)
    except subprocess.TimeoutExpired:
        return None
    except subprocess.CalledProcessError as error:
        sys.exit(f"{name}, {step}: {error.stderr}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def limit(shape: Shape, step: str) -> float | None:
    """Milliseconds that the step is allowed."""
    if shape.at_most is None:
        return None
    return shape.at_most if step == "start" else shape.at_most * INCREMENTAL


def line(shape: Shape, name: str, step: str, mine: dict[str, Any], peer: str) -> str:
    """One row of the table."""
    allowed = limit(shape, step)
    over = allowed is not None and mine["least"] > allowed
    heavy = shape.memory is not None and mine["megabytes"] > shape.memory
    off = f"{mine['off_rack']} of {shape.partitions}" if "off_rack" in mine else ""
    return (
        f"{name:<38}{step:<13}{mine['least']:>9.1f}{mine['median']:>9.1f}"
        f"{'' if allowed is None else f'{allowed:.0f}':>7}{mine['megabytes']:>7.0f}"
        f"  {off:<18}{peer}{'  OVER TIME' if over else ''}{'  OVER MEMORY' if heavy else ''}"
    )


def main() -> None:
    """Run what was asked for and print a table, a row as soon as it is known."""
    parser = argparse.ArgumentParser(
        prog="make benchmarks ARGS=...",
        description="Milliseconds of CPU per assignment, from and to plain Python lists (or "
        "bytes, where it says so): the least and the median of several runs, what is allowed, "
        "the peak memory of the process in MB, and how many times as long kafka-python's "
        "CooperativeSticky takes on the same input, where that ends in a minute.",
    )
    parser.add_argument("--only", default="", help="shapes whose names contain this")
    parser.add_argument("--repeat", type=int, default=11, help="runs of each step (11)")
    parser.add_argument("--no-peer", action="store_true", help="leave kafka-python out")
    parser.add_argument("--peer-seconds", type=float, default=60, help="its time limit (60)")
    parser.add_argument("--json", metavar="FILE", help="write all figures there as well")
    chosen = parser.parse_args()
    rows = []
    print(f"{'':<51}{'least':>9}{'median':>9}{'limit':>7}{'MB':>7}  off-rack")
    for name, shape in SHAPES.items():
        if chosen.only not in name:
            continue
        hopeless = chosen.no_peer or shape.adapter or shape.partitions > 100_000
        for step in STEPS:
            mine = run(name, step, chosen.repeat, "ours", 600)
            if mine is None:
                sys.exit(f"{name}, {step}: not done after ten minutes")
            row, peer = {"shape": name, "step": step, **mine}, ""
            if not hopeless:
                theirs = run(name, step, 1, "peer", chosen.peer_seconds)
                if theirs is None:
                    hopeless, peer = True, f"kafka-python: over {chosen.peer_seconds:.0f} s"
                else:
                    row["kafka_python"] = theirs["least"]
                    peer = (
                        f"kafka-python {theirs['least']:.0f} ms, "
                        f"{theirs['least'] / mine['least']:.0f} times"
                    )
            rows.append(row)
            print(line(shape, name, step, mine, peer), flush=True)
    if chosen.json:
        with open(chosen.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=2)


if __name__ == "__main__":
    main()
