"""Assignments with members even in bytes, not in partitions: ``balance="bytes"``.

To make the largest load as small as possible with unequal weights is NP-hard (for two members it is
the partition problem). So the rule is a bound: a member that has the mean or more gets no further
partition. With equal subscriptions a member below the mean always exists, so no load exceeds the
mean by the weight of the heaviest partition or more.

Partitions are assigned heaviest first, in two passes:

1. to members in the rack of the leader (or in the nearest one, with levels): the present owner, or
   else the member with the smallest load;
2. what is left, because no such member is below the mean, to the member below it that owns it, or
   else to the one with the smallest load.

With unequal subscriptions a topic may have no subscriber below the mean: it goes to the one with
the smallest load, and the bound does not hold. What is local is not proved to be the most.

Worked example: partitions of 6, 3, 3 and 2 led in racks a, a, b and b, a member in each rack. The
mean is 7. The member in a gets 6, then 3 (it is below 7): 9. The member in b gets 3 and 2: 5.
"""

from __future__ import annotations

from fractions import Fraction
from heapq import heapreplace

import numpy as np

from assignors.group import UNASSIGNED, Group
from assignors.weights import TrafficWeights
from placement_core.flow import IntArray


def assign_evenly(
    group: Group, weights: TrafficWeights, owner: IntArray, load_factor: Fraction
) -> IntArray:
    """Return the member of each partition. ``owner`` is its present one, or UNASSIGNED.

    In the first pass a member may have ``load_factor`` times the mean.
    """
    weight = [int(each) for each in weights.of_partition]
    mean = Fraction(sum(weight), max(1, len(group.members)))
    topic_class, subscribed = group.topic_classes()
    load = [0] * len(group.members)
    assigned = np.full_like(owner, UNASSIGNED)
    # Heaviest first; `index` counts distinct weights from the heaviest.
    remaining = np.argsort(weights.index, kind="stable").tolist()
    racks = len(group.crossing_rank)
    kind = (np.repeat(topic_class, group.sizes) * racks + group.leader_rack).tolist()
    owners = owner.tolist()
    for first_pass, limit in ((True, mean * load_factor), (False, mean)):
        candidates: dict[int, tuple[frozenset[int], list[tuple[int, int]]]] = {}
        left = []
        for partition in remaining:
            of_kind = kind[partition]
            if of_kind not in candidates:
                possible = np.flatnonzero(subscribed[of_kind // racks][group.subscription])
                if first_pass and len(possible):
                    rank = group.crossing_rank[of_kind % racks, group.member_rack[possible]]
                    possible = possible[(rank == rank.min()) & (rank < rank.max())]
                members = possible.tolist()
                heap = sorted((load[member], member) for member in members)
                candidates[of_kind] = frozenset(members), heap
            who, heap = candidates[of_kind]
            to = owners[partition]
            if to not in who or load[to] >= limit:
                # Loads only grow, so the smallest entry that is up to date is the smallest load.
                while heap and heap[0][0] < load[heap[0][1]]:
                    heapreplace(heap, (load[heap[0][1]], heap[0][1]))
                if not heap or (first_pass and heap[0][0] >= limit):
                    left.append(partition)
                    continue
                to = heap[0][1]
            assigned[partition] = to
            load[to] += weight[partition]
        remaining = left
    return assigned
