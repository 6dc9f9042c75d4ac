"""Topics that the same readers share, with their leaders in arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from placement_core.cluster import TopicPartition
from placement_core.exchange import even_out
from placement_core.leaders.branches import best_leaders
from placement_core.leaders.choice import LeaderChoice
from placement_core.leaders.costs import LeaderCosts, Ranks
from placement_core.leaders.quotas import Quotas
from placement_core.leaders.start import first_leaders
from placement_core.matching import IntArray


@dataclass(slots=True)
class TopicClass:
    """Partitions whose leaders are chosen together, and who reads them.

    ``brokers`` are the numbers, in the whole cluster, of those that ``choice`` knows: the ones
    that hold a replica. ``readers`` are the places of those who read.
    """

    partitions: Sequence[TopicPartition]
    brokers: IntArray
    choice: LeaderChoice
    readers: tuple[int, ...]
    started: bool = False
    proved: bool = False

    @classmethod
    def of(
        cls,
        partitions: Sequence[TopicPartition],
        replicas: Mapping[TopicPartition, tuple[int, ...]],
        number: Mapping[int, int],
        readers: tuple[int, ...],
    ) -> TopicClass:
        """``replicas`` of ``partitions``, each with at least one broker that ``number`` has."""
        lists = [replicas[partition] for partition in partitions]
        options = np.full((len(lists), max(map(len, lists))), -1)
        for row, brokers in enumerate(lists):
            for slot, broker in enumerate(brokers):
                options[row, slot] = number.get(broker, -1)
        used = np.unique(options[options >= 0])
        place = np.full(int(used[-1]) + 2, -1)
        place[used] = np.arange(len(used))
        options = place[options]
        return cls(partitions, used, LeaderChoice.of(options, options[:, 0], len(used)), readers)

    def settle(self, rack: IntArray, racks: int, base: IntArray, readers: list[Quotas]) -> bool:
        """Choose the best leaders given everything else; whether that changed any.

        ``rack`` and ``base`` are per broker of the whole cluster; ``readers`` are this class's,
        with the leaders of other classes counted as elsewhere.
        """
        before = self.choice.chosen.copy()
        here, beside = rack[self.brokers], base[self.brokers]
        largest = int(beside.max()) + len(self.partitions)
        costs = LeaderCosts(here, beside, Ranks.of(len(self.brokers), largest), racks)
        if not self.started:
            self.started = True
            if readers:
                first_leaders(self.choice, costs, readers)
            else:
                even_out(self.choice, beside)
        self.proved = best_leaders(self.choice, costs, readers)
        return bool((self.choice.chosen != before).any())
