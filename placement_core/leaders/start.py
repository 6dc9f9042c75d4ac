"""Where the search for the best leaders starts: racks first, then brokers within each rack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from placement_core.exchange import even_out
from placement_core.leaders.branches import best_leaders
from placement_core.leaders.choice import LeaderChoice
from placement_core.leaders.costs import LeaderCosts, Ranks
from placement_core.leaders.quotas import Quotas
from placement_core.matching import IntArray


def first_leaders(choice: LeaderChoice, costs: LeaderCosts, readers: Sequence[Quotas]) -> None:
    """Bring ``choice`` near its best in few steps, however many partitions it has.

    A choice of racks instead of brokers is the same problem with a handful of nodes, in which one
    cycle moves thousands of leaders; its locality is the best there is. Each partition then
    takes the replica in its rack (today's leader, or else the first), and brokers are evened out
    rack by rack.
    """
    base = costs.leaders(costs.base)
    in_racks = LeaderChoice(
        options=_racks_of(costs.rack, choice.options),
        before=_racks_of(costs.rack, choice.before),
        chosen=costs.rack[choice.chosen],
        brokers=costs.racks,
    )
    largest = int(base.max()) + len(choice.chosen)
    of_racks = replace(
        costs,
        rack=np.arange(costs.racks),
        base=base,
        ranks=Ranks.of(costs.racks, largest),
    )
    best_leaders(in_racks, of_racks, readers)
    there = (in_racks.options == in_racks.chosen[:, None]) & (choice.options >= 0)
    first = choice.options[np.arange(len(there)), there.argmax(axis=1)]
    stays = costs.rack[choice.chosen] == in_racks.chosen
    choice.take(np.where(stays, choice.chosen, first))
    even_out(choice, costs.base, costs.rack)


def _racks_of(rack: IntArray, brokers: IntArray) -> IntArray:
    """The racks of ``brokers``; -1 stays -1."""
    found: IntArray = np.where(brokers >= 0, rack[brokers], -1)
    return found
