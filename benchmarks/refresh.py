"""What a look at the leaders costs the group's leader: ``python -m benchmarks.refresh``."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from assignors import LeaderRackAwareCooperativeSticky, RefreshPolicy
from assignors.consumer_protocol import Subscription
from assignors.group_leader import Joined, Rebalance, Remarks
from assignors.group_leader.logs import UNTOLD
from assignors.kafka_python.assignors import read_leaders
from assignors.kafka_python.coordinator import read_metadata
from assignors.leader_moves import LeaderWatch
from benchmarks.shapes import RACKS, Leaders
from benchmarks.wire import cluster_metadata, metadata_answer, take_answer

GROUPS = {"36 partitions, 12 members": (1, 36, 12), "50,000, 100 members": (500, 100, 100)}
"""Topics, partitions of each, and members."""


def milliseconds(act: Callable[[], Any]) -> float:
    """CPU time of this process."""
    started = time.process_time()
    act()
    return 1000 * (time.process_time() - started)


class Stage:
    """A group's leader with its plan in force."""

    def __init__(self, topics: int, partitions: int, members: int) -> None:
        self._rng = Random(1)
        self._leaders: Leaders = {
            f"topic-{t:04}": [self._rng.choice(RACKS) for _ in range(partitions)]
            for t in range(topics)
        }
        self._cluster = cluster_metadata(self._leaders)
        decide = LeaderRackAwareCooperativeSticky()
        rebalance = Rebalance("benchmark", decide, False, None, Remarks())
        self._watch = LeaderWatch(RefreshPolicy(), rebalance)
        said = frozenset(self._leaders)
        joined = [
            Joined(f"m{n:03}", None, Subscription(topics=said, rack=RACKS[n % len(RACKS)]))
            for n in range(members)
        ]
        outcome = rebalance.run(partial(read_leaders, self._cluster), joined)
        self._watch.begin(1, joined, outcome, 0.0)

    def answer(self) -> Callable[[], None]:
        """Takes a broker's answer in."""
        return partial(take_answer, self._cluster, metadata_answer(self._leaders))

    def look(self) -> None:
        """One look at what was answered."""
        self._watch.look(partial(read_metadata, self._cluster), 0.0, UNTOLD)

    def move(self) -> None:
        """A tenth of the leaders goes elsewhere."""
        for row in self._leaders.values():
            for index in range(len(row)):
                if self._rng.random() < 0.1:
                    row[index] = self._rng.choice(RACKS)
        self.answer()()


def main(repeat: int = 7) -> None:
    """Print a table of medians."""
    print(f"{'milliseconds of CPU':<28}{'answer read':>13}{'look':>8}{'leaders moved':>15}")
    for name, group in GROUPS.items():
        stage = Stage(*group)
        answer = stage.answer()
        read = [milliseconds(answer) for _ in range(repeat)]
        still = [milliseconds(stage.look) for _ in range(repeat)]
        moved = []
        for _ in range(repeat):
            stage.move()
            moved.append(milliseconds(stage.look))
        figures = [statistics.median(taken) for taken in (read, still, moved)]
        print(f"{name:<28}{figures[0]:>13.1f}{figures[1]:>8.1f}{figures[2]:>15.1f}")


if __name__ == "__main__":
    main()
