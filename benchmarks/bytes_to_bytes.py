"""The whole work of a group's leader, from encoded subscriptions to encoded assignments.

Ours (in kafka-python's adapter) and franz-go's with the same bytes, in turns, so that both meet the
same load of the machine. franz-go is a Go program, ``benchmarks/franz_go``, and only timed if Go is
installed. Its client balances with the racks of leaders, and writes no log line.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from assignors import Member
from benchmarks.harness import in_new_process, peak_megabytes
from benchmarks.shapes import Leaders, Shape, disjoint_buckets, input_of
from benchmarks.wire import joined_members, rackward_assignment

MAX_RATIO = 1.2
"""The limit of rackward's time in a large group as a multiple of franz-go's."""

MAX_SMALL_MILLISECONDS = 2.0
"""The limit of rackward's time in a group of at most 1,000 partitions."""

CASES = {
    "1k/50": (Shape(1_000, 50, 20), "start"),
    "1k/50, one joins": (Shape(1_000, 50, 20), "join"),
    "5k/500, one joins": (Shape(5_000, 500, 50), "join"),
    "25k/100": (Shape(25_000, 100, 100), "start"),
    "25k/100, one joins": (Shape(25_000, 100, 100), "join"),
    "40k/800": (Shape(40_000, 800, 200), "start"),
    "40k/800, one joins": (Shape(40_000, 800, 200), "join"),
    "10k/1000, 5 buckets": (Shape(10_000, 1_000, 100, subscribe=disjoint_buckets), "start"),
    "50k/1000, one joins": (Shape(50_000, 1_000, 100), "join"),
}

Times = tuple[float, float]
"""Milliseconds elapsed, and of CPU."""

SOURCE = Path(__file__).parent / "franz_go"


@contextmanager
def franz_go(
    program: Path, members: list[Member], leaders: Leaders
) -> Iterator[Callable[[], Times]]:
    """Yield a function that has franz-go make one assignment."""
    group = {
        "Leaders": {topic: [rack or "" for rack in row] for topic, row in leaders.items()},
        "Members": [
            {
                "ID": joined.member_id,
                "Rack": member.rack or "",
                "Subscription": base64.b64encode(joined.metadata).decode(),
            }
            for member, joined in zip(members, joined_members(members, 3), strict=True)
        ],
    }
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(group, file)
        file.flush()
        with subprocess.Popen(
            [program, file.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            stdin, stdout = process.stdin, process.stdout
            assert stdin is not None
            assert stdout is not None

            def assign() -> Times:
                print(file=stdin, flush=True)
                figures = json.loads(stdout.readline())
                return figures["elapsed"], figures["cpu"]

            yield assign
            stdin.close()


def measure(name: str, repeat: int, program: Path | None) -> dict[str, float]:
    """Return the minimum times of one case, and the peak memory of this process in MB."""
    members, leaders = input_of(*CASES[name])
    run = rackward_assignment(members, leaders)
    solved: list[Times] = []
    peers: list[Times] = []
    with ExitStack() as stack:
        peer = program and stack.enter_context(franz_go(program, members, leaders))
        for _ in range(repeat):
            if peer:
                peers.append(peer())
            elapsed, cpu = time.perf_counter(), time.process_time()
            result = run()
            solved.append(
                ((time.perf_counter() - elapsed) * 1e3, (time.process_time() - cpu) * 1e3)
            )
            del result  # Outside the time of the next call.
    figures = {"megabytes": peak_megabytes()}
    for who, times in (("rackward", solved), ("franz_go", peers)):
        if times:
            elapsed, cpu = map(min, zip(*times, strict=True))
            figures |= {who: elapsed, f"{who}_cpu": cpu}
    return figures


def format_row(name: str, figures: dict[str, float]) -> str:
    """Return one row of the table."""
    small = CASES[name][0].partitions <= 1_000
    row = f"{name:<26}{figures['rackward']:>9.2f}"
    over = small and figures["rackward"] > MAX_SMALL_MILLISECONDS
    if "franz_go" in figures:
        ratio = figures["rackward"] / figures["franz_go"]
        row += f"{figures['franz_go']:>10.2f}{ratio:>7.2f}"
        over |= not small and ratio > MAX_RATIO
        row += f"{figures['rackward_cpu']:>10.2f}{figures['franz_go_cpu']:>10.2f}"
        row += f"{figures['rackward_cpu'] / figures['franz_go_cpu']:>7.2f}"
    return f"{row}{figures['megabytes']:>7.0f}{'  OVER TIME' if over else ''}"


def print_table(only: str, repeat: int, *, peer: bool, timeout: float) -> list[dict[str, object]]:
    """Measure each case in a process of its own; return the figures."""
    rows: list[dict[str, object]] = []
    names = [name for name in CASES if only in f"bytes to bytes {name}"]
    if not names:
        return rows
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "franz_go"
        if peer and shutil.which("go"):
            subprocess.run(["go", "build", "-o", program, "."], cwd=SOURCE, check=True)
        else:
            print("franz-go is not timed: install Go, and leave out --no-peer")
        print(
            "bytes to bytes: minimum ms, rackward's and franz-go's; ms of CPU; rackward's peak MB"
        )
        for name in names:
            peer_program = program if program.exists() else None
            figures = in_new_process(measure, name, repeat, peer_program, timeout=timeout)
            rows.append({"case": name, **figures})
            print(format_row(name, figures), flush=True)
    return rows


if __name__ == "__main__":
    print_table("", repeat=33, peer=True, timeout=600.0)
