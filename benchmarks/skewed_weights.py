"""The off-rack traffic of groups with skewed weights, its excess over the true optimum, and the
heaviest member's load over the mean with ``balance="bytes"``.

The optimum is that of the exact weights, computed with all of their 53 bits however long that
takes. Weights are log-normal; a tenth of the leaders have moved since the last assignment.
"""

from __future__ import annotations

import random
import time
from unittest import mock

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Member
from assignors import weights as traffic_weights

SHAPES = ((60, 7, 2), (1_000, 30, 10), (10_000, 100, 20), (20_000, 100, 20))
SIGMAS = (0.0, 1.0, 2.0, 3.0)
RACKS = "abc"


def measure(
    assignor: LeaderRackAwareCooperativeSticky | LeaderRackAwareRange,
    shape: tuple[int, int, int],
    sigma: float,
) -> tuple[float, float, float]:
    """Return milliseconds of CPU, the share by which the minimum weight is exceeded, and the load
    of the heaviest member over the mean."""
    partitions, count, topics = shape
    rng = random.Random(f"{shape} {sigma}")
    leaders: dict[str, list[str | None]] = {
        f"t{n:02}": [rng.choice(RACKS) for _ in range(partitions // topics)] for n in range(topics)
    }
    weights = {t: [rng.lognormvariate(0, sigma) for _ in row] for t, row in leaders.items()}
    members = [Member(f"m{n:03}", frozenset(leaders), RACKS[n % 3]) for n in range(count)]
    plan = assignor.assign(members, leaders, weights)
    members = [
        Member(m.id, m.topics, m.rack, owned=plan.partitions[m.id], generation=1) for m in members
    ]
    for row in leaders.values():
        for partition in rng.sample(range(len(row)), len(row) // 10):
            row[partition] = rng.choice(RACKS)

    def off_rack() -> float:
        partitions = assignor.assign(members, leaders, weights).partitions
        return sum(
            weights[topic][number]
            for member in members
            for topic, numbers in partitions[member.id].items()
            for number in numbers
            if leaders[topic][number] != member.rack
        )

    start = time.process_time()
    again = assignor.assign(members, leaders, weights).partitions
    milliseconds = (time.process_time() - start) * 1e3
    weight = off_rack()
    with mock.patch.object(traffic_weights, "PRECISIONS", ((float("inf"), 53),)):
        optimum = off_rack()
    loads = [sum(weights[t][n] for t, row in own.items() for n in row) for own in again.values()]
    heaviest = max(loads) / (sum(loads) / len(loads))
    return milliseconds, weight / optimum - 1 if optimum else 0.0, heaviest


def main() -> None:
    """Print a table, each row as soon as it is measured."""
    print(f"{'partitions/members/topics':<27}{'sigma':>6}{'sticky ms':>11}{'excess':>10}", end="")
    print(f"{'range ms':>11}{'excess':>10}{'bytes ms':>11}{'heaviest':>10}")
    for shape in SHAPES:
        for sigma in SIGMAS:
            row = f"{'/'.join(map(str, shape)):<27}{sigma:>6.0f}"
            for assignor in (LeaderRackAwareCooperativeSticky(), LeaderRackAwareRange()):
                milliseconds, excess, _ = measure(assignor, shape, sigma)
                row += f"{milliseconds:>11.1f}{excess:>10.5%}"
            even = LeaderRackAwareCooperativeSticky(balance="bytes")
            milliseconds, _, heaviest = measure(even, shape, sigma)
            row += f"{milliseconds:>11.1f}{heaviest:>10.3f}"
            print(row, flush=True)


if __name__ == "__main__":
    main()
