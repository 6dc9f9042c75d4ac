"""The CPU time of a leader layout of 10,000 partitions, 200 groups and the writers of each topic.

python -m benchmarks.leaders
"""

from __future__ import annotations

import random
import time

from placement_core import Broker, ClusterView, TopicPartition
from placement_core.leaders import ConsumerDemand, WriterDemand, plan_leaders

TOPICS, PARTITIONS, GROUPS = 200, 50, 200


def main() -> None:
    """Print the seconds of CPU and what the layout reaches."""
    rng = random.Random(1)
    brokers = tuple(Broker(n, "abc"[n % 3]) for n in range(12))
    replicas = {}
    for topic in range(TOPICS):
        for n in range(PARTITIONS):
            first = rng.randrange(12)
            replicas[TopicPartition(f"t{topic}", n)] = (first, (first + 1) % 12, (first + 2) % 12)
    view = ClusterView(brokers, replicas)
    demands = [
        ConsumerDemand(
            f"g{n}",
            frozenset({f"t{n}", f"t{(n + 1) % TOPICS}"} if n % 4 == 0 else {f"t{n}"}),
            {rack: rng.randint(1, 6) for rack in "abc"},
            rng.choice((1.0, 5.0, 20.0)),
        )
        for n in range(GROUPS)
    ]
    written: dict[str | TopicPartition, dict[str | None, float]] = {
        f"t{n}": {rack: rng.uniform(1, 500) for rack in "abc"} for n in range(TOPICS)
    }
    for aware in (False, True):
        writers = [WriterDemand("w", written, rack_aware=aware)]
        start = time.process_time()
        layout = plan_leaders(view, demands, writers=writers)
        seconds = time.process_time() - start
        each = (*layout.consumed, *layout.produced)
        before, after, total = (
            sum(getattr(one, field) for one in each) for field in ("before", "after", "total")
        )
        print(
            f"rack-aware={aware}: {seconds:.1f} s of CPU, across {before / total:.1%} before, "
            f"{after / total:.1%} after, gap {layout.gap:.2%}"
        )


if __name__ == "__main__":
    main()
