"""CPU time of a check for moved leaders on the group leader: ``python -m benchmarks.refresh``."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from random import Random

from assignors import LeaderRackAwareCooperativeSticky, Member, RefreshPolicy
from assignors.group import Members
from assignors.group_leader import GroupContext, LogOnce
from assignors.group_leader.rebalance import GroupProtocol, Leadership
from assignors.kafka_python.coordinator import read_metadata
from benchmarks.harness import cpu_times
from benchmarks.shapes import RACKS, Leaders
from benchmarks.wire import cluster_metadata, metadata_response, update_metadata

GROUPS = {"36 partitions, 12 members": (1, 36, 12), "50,000, 100 members": (500, 100, 100)}
"""Topics, partitions of each, and members."""


class GroupLeader:
    """The leader of a group, with an assignment that is monitored."""

    def __init__(self, topics: int, partitions: int, members: int) -> None:
        self._rng = Random(1)
        self._leaders: Leaders = {
            f"topic-{t:04}": [self._rng.choice(RACKS) for _ in range(partitions)]
            for t in range(topics)
        }
        self._cluster = cluster_metadata(self._leaders)
        self._read = partial(read_metadata, self._cluster)
        protocol = GroupProtocol(
            "benchmark",
            LeaderRackAwareCooperativeSticky(),
            cooperative=False,
            weights=None,
            log_once=LogOnce(),
            refresh=RefreshPolicy(),
        )
        subscription = frozenset(self._leaders)
        joined = Members.of(
            Member(f"m{n:03}", subscription, RACKS[n % len(RACKS)]) for n in range(members)
        )
        leaders, _ = self._read(joined.topics)
        leadership = Leadership()
        context = GroupContext("benchmark", 1)
        leadership.assign(protocol, joined, leaders, frozenset(), context, 0.0)
        assert leadership.monitor is not None
        self._monitor = leadership.monitor

    def metadata_update(self) -> Callable[[], None]:
        """Return a function that decodes a metadata response and applies it."""
        return partial(update_metadata, self._cluster, metadata_response(self._leaders))

    def check(self) -> None:
        """Check the metadata for leaders that moved."""
        self._monitor.check(self._read, 0.0, GroupContext("benchmark", 1))

    def move_leaders(self) -> None:
        """Elect a leader at random for a tenth of the partitions."""
        for row in self._leaders.values():
            for index in range(len(row)):
                if self._rng.random() < 0.1:
                    row[index] = self._rng.choice(RACKS)
        self.metadata_update()()


def main(repeat: int = 7) -> None:
    """Print a table of medians."""
    header = f"{'response decoded':>18}{'check':>8}{'leaders moved':>15}"
    print(f"{'milliseconds of CPU':<28}{header}")
    for name, group in GROUPS.items():
        leader = GroupLeader(*group)
        decoded = cpu_times(leader.metadata_update(), repeat)
        unchanged = cpu_times(leader.check, repeat)
        moved: list[float] = []
        for _ in range(repeat):
            leader.move_leaders()
            moved += cpu_times(leader.check, 1)
        medians = [statistics.median(times) for times in (decoded, unchanged, moved)]
        print(f"{name:<28}{medians[0]:>18.1f}{medians[1]:>8.1f}{medians[2]:>15.1f}")


if __name__ == "__main__":
    main()
