"""A consumer group's leader without a client: its rebalances, and a model of its members."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assignors import LeaderRackAwareCooperativeSticky, LeaderRacks, Member, Plan
from assignors.consumer_protocol import MemberSubscription, write_user_data
from assignors.encoding import read_members
from assignors.group_leader import GroupContext, Leaders, LogOnce
from assignors.group_leader.history import Assignment
from assignors.group_leader.rebalance import GroupProtocol, Leadership
from assignors.model import Assignor, WeightSource
from tests.support.kafka_python import subscription_bytes

Joined = tuple[str, str | None, MemberSubscription | bytes]
"""A member of a JoinGroup response: its id, its instance id and its subscription."""

NO_CONTEXT = GroupContext()
BROKER_RACKS: dict[int, str | None] = {0: "a", 1: "b", 2: "c"}


def sticky_protocol(assignor: Assignor | None = None, **options: Any) -> GroupProtocol:
    """Return a cooperative protocol named ``sticky``."""
    return GroupProtocol(
        name="sticky",
        assignor=assignor or LeaderRackAwareCooperativeSticky(),
        log_once=LogOnce(),
        **{"cooperative": True, "weights": None, **options},
    )


def rebalanced(
    protocol: GroupProtocol,
    leaders: Leaders,
    members: Iterable[Joined],
    deleted_topics: frozenset[str] = frozenset(),
    context: GroupContext = NO_CONTEXT,
) -> Assignment:
    """Return the result of a rebalance of ``members``."""
    joined = read_members(members)
    return Leadership().assign(protocol, joined, leaders, deleted_topics, context, 0.0)


def leaders_in(**racks: Sequence[str | None]) -> Leaders:
    """Return leaders in these racks, by topic."""
    return Leaders({t: list(row) for t, row in racks.items()}, frozenset(), BROKER_RACKS)


def joined_member(
    member_id: str,
    rack: str | None = None,
    owned: Mapping[str, Sequence[int]] | None = None,
    generation: int = 1,
    topics: Sequence[str] = ("t",),
) -> Joined:
    """Return a member with the bytes that a client would send."""
    data = subscription_bytes(
        topics, rack=rack, owned=owned, generation=generation if owned else -1
    )
    return member_id, None, data


class FixedAssignor:
    """Returns a fixed assignment, and records the weights of the last call."""

    def __init__(self, assigned: Mapping[str, Mapping[str, list[int]]] | None = None) -> None:
        self._assigned = assigned or {}
        self.weights: Any = None

    def assign(
        self,
        members: Iterable[Member],
        leader_racks: LeaderRacks,  # noqa: ARG002
        weights: WeightSource | None = None,
    ) -> Plan:
        self.weights = weights
        empty: dict[str, Mapping[str, list[int]]] = {member.id: {} for member in members}
        return Plan({**empty, **self._assigned}, 0, (0,), 0, 0, {})


class FailingAssignor:
    """Raises ZeroDivisionError with this message in every call."""

    def __init__(self, message: str = "injected") -> None:
        self._message = message

    def assign(
        self,
        members: Iterable[Member],  # noqa: ARG002
        leader_racks: LeaderRacks,  # noqa: ARG002
        weights: WeightSource | None = None,  # noqa: ARG002
    ) -> Plan:
        raise ZeroDivisionError(self._message)


# A model of a group with cooperative and eager members, in which any step may fail.
#
# A cooperative member reads what it owns while it joins, and revokes what it is not assigned. An
# eager one revokes everything before it joins. Members receive their assignments one after the
# other, or not at all if the next rebalance comes first. Subscriptions travel in the bytes that
# kafka-python's and aiokafka's members would send.

TOPIC = "t"


@dataclass
class ModelMember:
    """``owned``: what it reads now. ``last``: its last assignment, of ``generation``.

    ``instance``: its instance id, if it is static.
    """

    eager: bool
    rack: str | None
    owned: frozenset[int] = frozenset()
    last: frozenset[int] = frozenset()
    generation: int = -1
    instance: str | None = None

    def join(self) -> bytes:
        """Return its subscription; an eager member revokes everything first."""
        claims = {TOPIC: sorted(self.last)} if self.last else {}
        if self.eager:
            self.owned = frozenset()
            user_data = write_user_data(self.rack, claims, self.generation)
            return subscription_bytes([TOPIC], version=0, user_data=user_data)
        return subscription_bytes([TOPIC], rack=self.rack, owned=claims, generation=self.generation)

    def receive(self, assigned: Collection[int], generation: int) -> bool:
        """Take over the assignment. Return whether the member requests another rebalance."""
        revokes = not self.eager and not self.owned <= frozenset(assigned)
        self.owned = self.last = frozenset(assigned)
        self.generation = generation
        return revokes


@dataclass
class FalseMember(ModelMember):
    """A member that claims ``claims`` as of generation ``claimed``, and revokes nothing.

    It subscribes to the topic, or to nothing. What it reads is not looked at.
    """

    subscribes: bool = True
    claims: Mapping[str, Sequence[int]] = field(default_factory=dict)
    claimed: int = -1

    def join(self) -> bytes:
        topics = [TOPIC] if self.subscribes else []
        return subscription_bytes(
            topics, rack=self.rack, owned=self.claims, generation=self.claimed
        )

    def receive(self, assigned: Collection[int], generation: int) -> bool:  # noqa: ARG002
        return False


class TwoOwnersError(AssertionError):
    """Two members read one partition."""


class NotSettledError(AssertionError):
    """Partitions stay withheld without a further rebalance, or rebalances do not end."""


@dataclass
class ModelGroup:
    """Members by id on one topic, whose partitions have their leaders in racks ``leaders``."""

    leaders: list[str | None]
    protocol: GroupProtocol = field(default_factory=sticky_protocol)
    leadership: Leadership = field(default_factory=Leadership)
    members: dict[str, ModelMember] = field(default_factory=dict)
    generation: int = 0
    assigned: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)

    def rebalance(self, receivers: Collection[str]) -> tuple[bool, int]:
        """Rebalance once; only ``receivers`` receive their assignments, in that order.

        Return whether one of them requests another rebalance, and the number of withheld
        partitions.
        """
        self.generation += 1
        result = self.leadership.assign(
            self.protocol,
            read_members(
                (name, member.instance, member.join()) for name, member in self.members.items()
            ),
            leaders_in(**{TOPIC: self.leaders}),
            frozenset(),
            GroupContext("g", self.generation),
            0.0,
        )
        self.assigned = result.assigned
        again = False
        for name in receivers:
            assigned = result.assigned[name].get(TOPIC, ())
            again |= self.members[name].receive(assigned, self.generation)
            self.check_owners()
        return again, result.withheld

    def restart(self, name: str, new_name: str) -> None:
        """Restart a static member: brokers give it what it had, without a rebalance."""
        self.members[new_name] = self.members.pop(name)

    def time_out(self) -> None:
        """Let the time for revoking partitions pass; the leader requests a rebalance then."""
        self.leadership.on_revocation_timeout(GroupContext("g", self.generation), 0)

    def check_owners(self) -> None:
        """Raise TwoOwnersError if members read the same partition."""
        owners: dict[int, str] = {}
        for name, member in self.members.items():
            for partition in member.owned:
                if partition in owners:
                    raise TwoOwnersError(f"{partition}: {owners[partition]} and {name}")
                owners[partition] = name

    def settle(self, rounds: int = 2) -> int:
        """Rebalance until no member requests it, at most ``rounds`` times; return how often."""
        for used in range(1, rounds + 1):
            again, withheld = self.rebalance(sorted(self.members))
            if not again:
                if withheld:
                    raise NotSettledError(f"{withheld} withheld, and no rebalance is requested")
                return used
        raise NotSettledError(f"not settled after {rounds} rebalances")

    def owned(self) -> Mapping[str, frozenset[int]]:
        """Return what each member reads."""
        return {name: member.owned for name, member in self.members.items()}
