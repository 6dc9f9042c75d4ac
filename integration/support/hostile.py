"""A member of a classic group whose subscription can be any bytes, and which revokes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from kafka import errors as kafka_errors

from assignors.consumer_protocol import SubscriptionReader
from rackward.lead.member import GroupMember, LeadConnection
from rackward.testing import Cluster
from tests.support.kafka_python import subscription_bytes
from tests.support.waiting import TEST_TIMEOUT


class HostileMember:
    """A member named hostile, which joins in each rebalance with ``subscription``.

    Without ``rejoins`` it joins once, and then sends heartbeats only.
    ``assigned`` is what the last assignment gave it; None before the first.
    """

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        subscription: bytes,
        protocol: str = "cooperative-sticky",
        *,
        rejoins: bool = True,
    ) -> None:
        properties = {"bootstrap.servers": cluster.bootstrap_servers}
        self._connection = LeadConnection(properties)
        self._connection.admin.manager.config["client_id"] = "hostile"
        self._member = GroupMember(self._connection, group)
        self._protocol = protocol
        self._ignored = () if rejoins else (kafka_errors.RebalanceInProgressError,)
        self._subscription = subscription
        self._joins_again = False
        self._ending = False
        self.assigned: Mapping[str, Sequence[int]] | None = None
        self._running = self._connection.start(self._run)

    def join_with(self, subscription: bytes) -> None:
        """Have the group rebalance, and join with another subscription from now on."""
        self._subscription, self._joins_again = subscription, True

    async def _run(self) -> None:
        while not self._ending:
            self._joins_again = False
            protocols = [(self._protocol, self._subscription)]
            try:
                if not self._member.id:
                    self._member.id = await self._member.request_id(protocols)
                await self._member.join(protocols, "")
                assigned = await self._member.sync()
                self.assigned = SubscriptionReader().read_assignment(assigned)
                while not self._ending and not self._joins_again:
                    with suppress(*self._ignored):
                        await self._member.heartbeat()
                    await self._connection.notifier()(0.1)
            except kafka_errors.RebalanceInProgressError:
                continue

    def close(self) -> None:
        """Leave the group, also while a join is in progress."""
        self._ending = True

        async def end() -> None:
            await self._member.leave("the test ends")
            with suppress(kafka_errors.KafkaError):
                await self._connection.wait(self._running, TEST_TIMEOUT)

        self._connection.run(end)
        self._connection.close()


def subscription(
    topics: Sequence[str], owned: Mapping[str, Sequence[int]], generation: int
) -> bytes:
    """Return a ConsumerProtocolSubscription of version 2, which has no rack."""
    return subscription_bytes(topics, version=2, owned=owned, generation=generation, user_data=None)
