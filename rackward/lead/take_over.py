"""Who leads a group next, and what a member that is to lead does about it: pure decisions.

The response to a member's own JoinGroup request is the only one that names the group's leader. So a
member joins first, in waiting, and then either waits (`WAIT`) or removes the leader (`REMOVE`).

When the leader is gone, brokers make the first member of their member map the leader. That map is a
Java HashMap by member id, and dynamic member ids are given before a member joins: so one can be
given back, and another requested, until it is in an early bucket (`id_cost`). This is a detail of
today's brokers; with another one, a take-over costs more attempts, and nothing else.

Several processes may lead the same group. None of them removes another one's member, and of those
in waiting only the one with the lowest member id removes a leader.

Everywhere ``others`` are the other members of the group: member id to instance id, None if dynamic.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from itertools import accumulate

from rack_traffic.advice import OWN_PROTOCOLS
from rackward.kafka.groups import leads_for_rackward


class TakeOver(Enum):
    """How to become the leader of a group that has another leader."""

    WAIT = "wait"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class TakeOverPolicy:
    """When the leader of a group is removed.

    remove_static
        Whether a leader with an instance id may be removed.
    cool_down
        Minimum seconds between two removals in a group.
    attempts
        Removals in a row that did not give us the lead, after which we wait.
    """

    mode: TakeOver = TakeOver.WAIT
    remove_static: bool = False
    cool_down: float = 60.0
    attempts: int = 3


@dataclass(frozen=True, slots=True)
class TakeOverState:
    """What was removed so far. ``removed_at`` is of the caller's clock; None: nothing."""

    removed_at: float | None = None
    attempts: int = 0

    def removed(self, now: float) -> TakeOverState:
        """Return the state after a removal."""
        return TakeOverState(now, self.attempts + 1)

    def leading(self) -> TakeOverState:
        """Return the state once we lead; the cool-down goes on."""
        return replace(self, attempts=0)


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now: remove the members ``remove``, or wait for ``reason``.

    ``retry_after`` is the number of seconds until the decision may be another one; None: only if
    the group changes.
    """

    reason: str
    remove: tuple[str, ...] = ()
    retry_after: float | None = None


def decide(
    me: str,
    leader: str,
    others: Mapping[str, str | None],
    policy: TakeOverPolicy,
    state: TakeOverState,
    now: float,
    protocol: str = "",
) -> Decision:
    """Return what member ``me`` does about a ``leader`` that is another member.

    A leader with an assignor of rackward's, which ``protocol`` tells, is not removed: it assigns as
    this process would.
    Members that would lead before this one are removed with the leader, unless they are static.
    Otherwise each of them would have to be removed in its turn.
    """
    if leads_for_rackward(leader):
        return Decision("another rackward process leads the group")
    if protocol in OWN_PROTOCOLS:
        return Decision(f"its members assign by the racks of leaders themselves ({protocol})")
    if policy.mode is TakeOver.WAIT:
        return Decision("its leader is another member: waiting until that leaves the group")
    if any(leads_for_rackward(member) and member < me for member in others):
        return Decision("another rackward process takes the group over")
    if others.get(leader) and not policy.remove_static:
        return Decision(
            "its leader is a static member, which is not removed: waiting until it leaves"
        )
    if (not_yet := _too_soon(policy, state, now)) is not None:
        return not_yet
    ahead = (
        member
        for member in members_ahead(me, others)
        if member != leader and not leads_for_rackward(member)
    )
    also = sorted(m for m in ahead if policy.remove_static or not others[m])
    return Decision("removing the leader", remove=(leader, *also))


def decide_outside(
    others: Mapping[str, str | None], policy: TakeOverPolicy, state: TakeOverState, now: float
) -> Decision:
    """Return what to do about a group whose leader may not cope with a member that does not read.

    Such a group is either left alone, or all members are removed while we join, so that none of
    them leads with us in the group. None of them if one is static and may not be removed.
    """
    if any(map(leads_for_rackward, others)):
        return Decision("another rackward process leads the group")
    if policy.mode is TakeOver.WAIT:
        return Decision(
            "the leaders of some clients fail under this assignor if a member reads nothing:"
            " waiting until the group is empty"
        )
    if any(others.values()) and not policy.remove_static:
        return Decision("it has static members, which are not removed: waiting until it is empty")
    if (not_yet := _too_soon(policy, state, now)) is not None:
        return not_yet
    return Decision("removing all members", remove=tuple(sorted(others)))


def removed_with_leader(
    others: Mapping[str, str | None], policy: TakeOverPolicy, *, outside: bool
) -> tuple[str, ...]:
    """Return the members that a take-over removes whether they lead or not; brokers do not name
    the leader.

    They would lead before this process, whose id is chosen for the first bucket of the brokers'
    map. If no id in that bucket is found, there may be more. ``outside``: as `decide_outside`, all
    or none.
    """
    removable = sorted(m for m, static in others.items() if policy.remove_static or not static)
    if outside:
        return tuple(removable) if len(removable) == len(others) else ()
    buckets = _buckets(others)
    return tuple(member for member in removable if bucket(member, buckets) == 0)


def _too_soon(policy: TakeOverPolicy, state: TakeOverState, now: float) -> Decision | None:
    """Return a decision to wait if members were removed too often or a moment ago."""
    if state.attempts >= policy.attempts:
        return Decision(
            f"removed leaders {state.attempts} times without getting the lead: waiting until the"
            " present one leaves"
        )
    if state.removed_at is not None and now - state.removed_at < policy.cool_down:
        return Decision(
            f"a leader was removed less than {policy.cool_down:g} s ago: waiting",
            retry_after=state.removed_at + policy.cool_down - now,
        )
    return None


# ---- The brokers' member map.


def bucket(member_id: str, buckets: int) -> int:
    """Return the bucket of a key in a Java HashMap of ``buckets``, a power of two."""
    code = 0
    for (unit,) in struct.iter_unpack(">H", member_id.encode("utf-16-be", "surrogatepass")):
        code = (31 * code + unit) & 0xFFFFFFFF
    return (code ^ (code >> 16)) & (buckets - 1)


def members_ahead(candidate: str, others: Collection[str]) -> list[str]:
    """Return those of ``others`` that are before ``candidate`` in the map, if it joins last.

    In a bucket, keys are in the order of their insertion. The map never shrinks, so it may have
    more buckets than its members need, and another order. Then the first attempt to lead next
    fails.
    """
    buckets = _buckets(others)
    own = bucket(candidate, buckets)
    return [member for member in others if bucket(member, buckets) <= own]


def id_cost(candidate: str, others: Collection[str], mode: TakeOver) -> int:
    """Return how unsuitable a member id is for a member that waits; no id is better than 0.

    To remove a leader, it should be the first in the map, and behind another process that leads for
    rackward the next. Where another member leads, it should be the second: Java's sticky assignors
    take the subscriptions of all members for equal if the first one in a map of the same kind has
    no topics, and assign partitions to it.
    """
    consumers = [member for member in others if not leads_for_rackward(member)]
    buckets = _buckets(others)
    taken = Counter(bucket(member, buckets) for member in consumers)
    costs = list(accumulate(taken[number] for number in range(buckets)))
    if mode is TakeOver.WAIT and consumers and len(consumers) == len(others):
        costs = [ahead - 1 if ahead else len(others) for ahead in costs]
    return costs[bucket(candidate, buckets)] - min(costs)


def _buckets(others: Collection[str]) -> int:
    """Return the number of buckets of the map once one more member has joined."""
    buckets = 16
    while len(others) + 1 > buckets * 3 // 4:
        buckets *= 2
    return buckets
