"""Time and memory of ``import assignors``: ``python -m benchmarks.imports``.

Each measurement is a new process, with the modules compiled. The columns are CPU milliseconds (the
minimum and the median of all runs, less those of Python alone) and the peak memory in MB above
that of Python alone. Rows:

    assignors       the package, which imports its parts when they are first used
    both assignors  what a member imports when it leads its group, numpy included
    numpy           numpy alone

Exit status 1 if both assignors exceed 60 ms or 25 MB beyond numpy.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

MAX_MILLISECONDS, MAX_MEGABYTES = 60.0, 25.0

STATEMENTS = {
    "nothing": "pass",
    "numpy": "import numpy",
    "assignors": "import assignors",
    "both assignors": (
        "from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Member"
    ),
}

PROGRAM = """
import resource, time
{statement}
print(time.process_time() * 1000, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def measure(statement: str, runs: int) -> tuple[float, float, float]:
    """Return minimum and median of CPU milliseconds, and the minimum of the peak memory in MB."""
    times, memory = [], []
    for _ in range(runs + 1):
        completed = subprocess.run(
            [sys.executable, "-c", PROGRAM.format(statement=statement)],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        milliseconds, megabytes = map(float, completed.stdout.split())
        times.append(milliseconds)
        memory.append(megabytes)
    # The first run compiles the modules.
    return min(times[1:]), statistics.median(times[1:]), min(memory[1:])


def main() -> int:
    """Print the table; return 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=11, help="processes per row")
    runs = parser.parse_args().repeat
    figures = {name: measure(statement, runs) for name, statement in STATEMENTS.items()}
    base = figures["nothing"]
    print(f"{'import':<18}{'min ms':>8}{'median':>8}{'MB':>8}")
    for name in list(STATEMENTS)[1:]:
        least, median, memory = (
            value - alone for value, alone in zip(figures[name], base, strict=True)
        )
        print(f"{name:<18}{least:>8.1f}{median:>8.1f}{memory:>8.1f}")
    beyond = [figures["both assignors"][column] - figures["numpy"][column] for column in (0, 2)]
    print(f"both assignors beyond numpy: {beyond[0]:.1f} ms, {beyond[1]:.1f} MB")
    return int(beyond[0] > MAX_MILLISECONDS or beyond[1] > MAX_MEGABYTES)


if __name__ == "__main__":
    sys.exit(main())
