"""A model of a group whose members are cooperative and eager, and which may fail at any point.

Cooperative members own what they own while they join, and give it up as they are told in whose
hands it is not. Eager ones give up everything before they join. Both learn their shares one
after the other, or not at all where the next rebalance comes first. What members say travels
in the bytes that kafka-python's and aiokafka's would send, and the leader reads them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from assignors import LeaderRackAwareCooperativeSticky
from assignors.leading import Joined, Leaders, Rebalance, Remarks
from assignors.wire import SubscriptionReader, write_user_data
from tests.assignors.kafka_python_group import subscription_bytes

TOPIC = "t"


@dataclass
class Member:
    """``owned``: what it reads now; ``had``: what the last share that it learned of was."""

    eager: bool
    rack: str | None
    owned: frozenset[int] = frozenset()
    had: frozenset[int] = frozenset()
    since: int = -1

    def join(self) -> bytes:
        """Its subscription; an eager member gives up everything first."""
        claims = {TOPIC: sorted(self.had)} if self.had else {}
        if self.eager:
            self.owned = frozenset()
            return subscription_bytes(
                [TOPIC], version=0, user_data=write_user_data(self.rack, claims, self.since)
            )
        return subscription_bytes([TOPIC], rack=self.rack, owned=claims, generation=self.since)

    def learn(self, share: Collection[int], generation: int) -> bool:
        """Take the share over; whether it has to ask for another round to hand something on."""
        gives_up = not self.eager and not self.owned <= frozenset(share)
        self.owned = self.had = frozenset(share)
        self.since = generation
        return gives_up


class TwoOwnersError(AssertionError):
    """A partition is owned twice."""


class EndlessError(AssertionError):
    """Somebody waits for a round for which nobody asks, or rounds do not end."""


def sticky_rebalance() -> Rebalance:
    """What decides in a live group."""
    return Rebalance(
        "sticky", LeaderRackAwareCooperativeSticky(), cooperative=True, weights=None,
        remarks=Remarks(),
    )  # fmt: skip


@dataclass
class Group:
    """Members by id on a topic whose partitions are led from ``leaders``."""

    leaders: list[str | None]
    decide: Rebalance = field(default_factory=sticky_rebalance)
    members: dict[str, Member] = field(default_factory=dict)
    generation: int = 0

    def rebalance(self, learning: Collection[str]) -> tuple[bool, int]:
        """One round, in which only ``learning`` hear of its outcome, in that order.

        Returns whether one of them asks for another round, and how much was withheld.
        """
        self.generation += 1
        reader = SubscriptionReader()
        joined = [
            Joined(name, None, reader.read(member.join()))
            for name, member in sorted(self.members.items())
        ]
        known = Leaders({TOPIC: self.leaders}, {}, frozenset(), {0: "a", 1: "b", 2: "c"})
        shares, withheld, _ = self.decide.run(lambda _: known, joined)
        again = False
        for name in learning:
            again |= self.members[name].learn(shares[name].get(TOPIC, ()), self.generation)
            self.check()
        return again, withheld

    def check(self) -> None:
        """Raise TwoOwnersError where members own the same partition."""
        owners: dict[int, str] = {}
        for name, member in self.members.items():
            for partition in member.owned:
                if partition in owners:
                    raise TwoOwnersError(f"{partition}: {owners[partition]} and {name}")
                owners[partition] = name

    def settle(self, rounds: int = 2) -> int:
        """Rebalance until nobody asks again, in at most ``rounds``; how many it took."""
        for used in range(1, rounds + 1):
            again, withheld = self.rebalance(sorted(self.members))
            if not again:
                if withheld:
                    raise EndlessError(f"{withheld} withheld, and nobody hands them on")
                return used
        raise EndlessError(f"not at rest after {rounds} rounds")

    def owned(self) -> Mapping[str, frozenset[int]]:
        """Who reads what."""
        return {name: member.owned for name, member in self.members.items()}
