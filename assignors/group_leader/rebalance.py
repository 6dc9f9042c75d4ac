"""One rebalance, on the leader of the group: from what members said to what each gets."""

from __future__ import annotations

import heapq
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from assignors.consumer_protocol import Subscription
from assignors.group_leader.history import Assignment, Basis, Records
from assignors.group_leader.logs import UNTOLD, About, Remarks, log, some
from assignors.group_leader.metadata import Leaders, racks_apart
from assignors.model import Assignor, LeaderRacks, Member, Plan, Weights
from placement_core import parse_rack

# ---- A plain plan for the day the assignor itself fails: a group must settle all the same.


def plain_plan(
    members: Iterable[Member], leader_racks: LeaderRacks
) -> dict[str, dict[str, list[int]]]:
    """Every partition to a subscriber: to its owner if that is not full, else to the least loaded.

    Full is the ceiling of the average over all members. Racks are not looked at. Owners
    keep what they have so that a cooperative group comes to rest on this plan too.
    """
    by_id = sorted(members, key=lambda member: member.id)
    subscribers: dict[str, list[str]] = {}
    for member in by_id:
        for topic in member.topics:
            if topic in leader_racks:
                subscribers.setdefault(topic, []).append(member.id)
    plan: dict[str, dict[str, list[int]]] = {member.id: {} for member in by_id}
    load = dict.fromkeys(plan, 0)
    total = sum(len(leader_racks[topic]) for topic in subscribers)
    full = -(-total // len(plan)) if plan else 0
    owners = _owners(by_id, leader_racks)
    for topic in sorted(subscribers):
        unowned = []
        for partition in range(len(leader_racks[topic])):
            owner = owners.get((topic, partition))
            if owner is None or load[owner] >= full:
                unowned.append(partition)
            else:
                plan[owner].setdefault(topic, []).append(partition)
                load[owner] += 1
        least = [(load[member], member) for member in subscribers[topic]]
        heapq.heapify(least)
        for partition in unowned:
            count, member_id = least[0]
            heapq.heapreplace(least, (count + 1, member_id))
            plan[member_id].setdefault(topic, []).append(partition)
            load[member_id] += 1
    return {
        member_id: {topic: sorted(partitions) for topic, partitions in topics.items()}
        for member_id, topics in plan.items()
    }


def _owners(
    members: Sequence[Member], leader_racks: Mapping[str, Sequence[str | None]]
) -> dict[tuple[str, int], str]:
    """Who owns each partition: the latest claim of a subscriber, the first by id among equals."""
    claims: dict[tuple[str, int], tuple[int, str]] = {}
    for member in members:
        for topic, partitions in member.owned.items():
            if topic in member.topics and topic in leader_racks:
                for partition in partitions:
                    held = claims.get((topic, partition))
                    if held is None or held[0] < member.generation:
                        claims[topic, partition] = (member.generation, member.id)
    return {tp: member_id for tp, (_, member_id) in claims.items()}


Shares = dict[str, dict[str, list[int]]]
"""Member id to topic to partitions."""

WeightSource = Weights | Callable[[str], Sequence[float] | None]


_NAMED_TOPICS = 50
"""Missing topics that get a line each; a member may name any number of them."""


class Outcome(NamedTuple):
    """Everyone's share, how many partitions nobody gets before another round, and the leaders."""

    shares: Shares
    withheld: int
    leaders: Leaders


@dataclass(frozen=True, slots=True)
class Joined:
    """One member of the rebalance, and what it said."""

    id: str
    instance_id: str | None
    subscription: Subscription

    @property
    def client(self) -> str:
        """Its name without the part that is new at every start, for what is said once."""
        # Brokers form a dynamic member's id as its client id, a dash and 36 characters.
        return self.instance_id or (self.id[:-37] if len(self.id) > 37 else self.id)

    def owning(self, owned: Mapping[str, Sequence[int]], generation: int) -> Member:
        """The member as an assignor sees it, with ``owned`` as of that generation."""
        return Member(
            id=self.id,
            topics=self.subscription.topics,
            rack=self.subscription.rack,
            instance_id=self.instance_id,
            owned=owned,
            generation=generation,
        )


@dataclass(frozen=True, slots=True)
class Rebalance:
    """How one strategy turns joined members into shares, and what it says about it.

    Nothing here raises: a fault of one member, of the weights or of the assignor itself
    costs locality and a line in the log, never the rebalance.
    """

    name: str
    assignor: Assignor
    cooperative: bool
    weights: WeightSource | None
    remarks: Remarks
    records: Records = field(default_factory=Records)

    def run(
        self,
        read_leaders: Callable[[Iterable[str]], Leaders],
        joined: Sequence[Joined],
        gone: frozenset[str] = frozenset(),
        about: About = UNTOLD,
    ) -> Outcome:
        """Decide who gets what.

        ``read_leaders`` tells of the leaders of all topics that members subscribe to. ``gone``
        are topics that brokers said do not exist. Any other topic without metadata is only not
        seen yet, so who owns its partitions keeps them: taking them away would hand them back
        a moment later. ``about`` names group and generation.
        """
        started = time.perf_counter()
        topics: set[str] = set()
        for member in joined:
            topics |= member.subscription.topics
        leaders = read_leaders(topics)
        members = [
            member.owning(leaders.to_positions(said.owned), said.generation)
            for member in joined
            for said in (member.subscription,)
        ]
        weights = self.weights_of(leaders.racks)
        plan, shares = self._decide(members, leaders, weights)
        if leaders.unseen - gone:
            _keep_unseen(shares, joined, leaders.unseen - gone)
        withheld = _withhold(shares, joined) if self.cooperative else 0
        self._remark(joined, leaders, gone)
        made = Assignment(
            group=about.group,
            generation=about.generation,
            number=1,
            at=self.records.now(),
            protocol=self.name,
            partitions=sum(map(len, leaders.racks.values())),
            off_rack=None if plan is None else plan.off_rack,
            optimum=None if plan is None else plan.optimum,
            moved=None if plan is None else plan.moved,
            withheld=withheld,
            milliseconds=(time.perf_counter() - started) * 1000,
            basis=Basis(members, leaders, weights, self.assignor, shares),
        )
        log.info("%s", self.records.keep(made))
        return Outcome(shares, withheld, leaders)

    def _decide(
        self, members: Sequence[Member], leaders: Leaders, weights: Weights | None
    ) -> tuple[Plan | None, Shares]:
        try:
            plan = self.assignor.assign(members, leaders.racks, weights)
            return plan, {
                member: leaders.to_partitions(topics) for member, topics in plan.partitions.items()
            }
        except Exception as error:  # noqa: BLE001 - whatever it is, the group has to settle
            self.remarks.once(
                ("assignor", type(error)),
                "%s failed (%s); the group gets a balanced plan that does not look at racks",
                self.name,
                error,
                level=logging.ERROR,
                exc_info=True,
            )
        return None, {
            member: leaders.to_partitions(topics)
            for member, topics in plain_plan(members, leaders.racks).items()
        }

    def weights_of(self, topics: Iterable[str]) -> Weights | None:
        """The traffic of ``topics`` as far as it is known; None: all partitions count the same."""
        if self.weights is None:
            return None
        found: dict[str, Sequence[float]] = {}
        for topic in topics:
            try:
                source = self.weights if callable(self.weights) else self.weights.get
                weights = source(topic)
                if weights is not None:
                    found[topic] = [float(weight) for weight in weights]
            except Exception as error:  # noqa: BLE001 - the user's code; racks still count
                self.remarks.once(
                    ("weights", type(error)), "no weights for topic %s: %r", topic, error
                )
        return found or None

    def _remark(self, joined: Sequence[Joined], leaders: Leaders, gone: frozenset[str]) -> None:
        once = self.remarks.once
        rackless = sorted({m.client for m in joined if not parse_rack(m.subscription.rack)})
        if rackless:
            once(
                ("rackless members", *rackless),
                "members without a rack read across racks: %s",
                some(rackless),
            )
        placeless = sorted(broker for broker, rack in leaders.brokers.items() if not rack)
        if placeless:
            once(
                ("rackless brokers", *placeless),
                "brokers without broker.rack; what they lead counts as near to everyone: %s",
                some(placeless),
            )
        apart = racks_apart((m.subscription.rack for m in joined), leaders.brokers.values())
        if apart:
            once("racks apart", "%s", apart)
        for member in joined:
            for fault in member.subscription.faults:
                once(
                    ("fault", member.client, fault.partition(":")[0]),
                    "member %s sent what cannot be read, so that part counts for nothing: %s",
                    member.id,
                    fault,
                )
        unseen = sorted(leaders.unseen)
        for topic in unseen[:_NAMED_TOPICS]:
            why = "does not exist" if topic in gone else "has no metadata yet"
            once(("topic", topic, why), "topic %s is subscribed to but %s", topic, why)
        if len(unseen) > _NAMED_TOPICS:
            once("many topics", "%d topics are subscribed to but not there", len(unseen))
        for topic in leaders.racks:
            self.remarks.settled(("topic", topic, "does not exist"))


def _keep_unseen(shares: Shares, joined: Sequence[Joined], unseen: frozenset[str]) -> None:
    """Leave the partitions of ``unseen`` topics with whoever claims them latest."""
    claims: dict[tuple[str, int], list[tuple[int, str]]] = {}
    for member in joined:
        said = member.subscription
        for topic in unseen & said.owned.keys() & said.topics:
            for partition in set(said.owned[topic]):
                claims.setdefault((topic, partition), []).append((said.generation, member.id))
    for (topic, partition), claimants in sorted(claims.items()):
        latest = max(generation for generation, _ in claimants)
        owners = [member for generation, member in claimants if generation == latest]
        if len(owners) == 1:
            shares[owners[0]].setdefault(topic, []).append(partition)


def _withhold(shares: Shares, joined: Sequence[Joined]) -> int:
    """Take from ``shares`` what a member would newly get while another still reads it.

    A partition that any other member holds, as of whichever generation, stays with nobody
    in this round: who holds it gives it up and rejoins, and the next round hands it on. What an
    eager member released before it joined is free, and handed on at once: nobody would ask
    for another round on its behalf. Returns how many were withheld.
    """
    claims: dict[str, Mapping[str, Sequence[int]]] = {m.id: m.subscription.held for m in joined}
    claimed: dict[str, set[int]] = {}
    for owned in claims.values():
        for topic, partitions in owned.items():
            claimed.setdefault(topic, set()).update(partitions)
    withheld = 0
    for member, topics in shares.items():
        own = claims.get(member, {})
        for topic, share in list(topics.items()):
            if topic not in claimed or [*own.get(topic, ())] == share:
                continue
            # What is claimed, and not by the member itself, is claimed by another.
            mine = set(own.get(topic, ()))
            others = claimed[topic]
            left = [p for p in share if p not in others or p in mine]
            if len(left) < len(share):
                withheld += len(share) - len(left)
                if left:
                    topics[topic] = left
                else:
                    del topics[topic]
    return withheld


# ---- How long the leader of a group waits for others.

METADATA_PATIENCE = 3.0
"""Seconds for which a leader waits for the metadata of topics that it has not seen."""

HAND_OVER_PATIENCE = 30.0
"""Seconds after which a leader asks for the second round of a rebalance itself."""


# ---- What an assignor tells of the assignments that it made, whatever client it is for.


class Remembering:
    """An assignor whose ``rebalance`` keeps records."""

    rebalance: Rebalance

    def last_assignment(self, group: str | None = None) -> Assignment | None:
        """The last assignment that this assignor made, of ``group`` or of any.

        None where no consumer that was given this has led its group so far.
        """
        return self.rebalance.records.last(group)

    def assignments(self) -> tuple[Assignment, ...]:
        """The last assignment of each group, for :mod:`assignors.metrics`."""
        return self.rebalance.records.all()
