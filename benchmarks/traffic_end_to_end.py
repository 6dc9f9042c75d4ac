"""Compare the pipeline's bytes of three minutes of traffic with the bytes that brokers counted.

    python -m benchmarks.traffic_end_to_end [--seconds 180] [--json]

Starts six brokers in three racks. Exit status 1 if they differ by more than 5 %.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from integration.support.traffic import run
from rackward.testing import LocalCluster

MAX_DIFFERENCE = 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="rackward-traffic-") as folder,
        LocalCluster(("a", "a", "b", "b", "c", "c")) as cluster,
    ):
        figures = run(cluster, options.seconds, Path(folder) / "snapshots")
    differences = figures.differences()
    if options.json:
        pairs = {
            f"{source}->{target}": {
                "counted": count,
                "pipeline": figures.computed.get((source, target), 0),
                "difference": differences.get((source, target)),
            }
            for (source, target), count in sorted(figures.counted.items())
        }
        print(json.dumps({"pairs": pairs, "difference": figures.difference}, indent=2))
    else:
        print(figures.as_table())
    maximum = max(abs(share) for share in (*differences.values(), figures.difference))
    sys.exit(1 if maximum > MAX_DIFFERENCE else 0)


if __name__ == "__main__":
    main()
