"""What the assignors of all Python client libraries share; imports no client library.

kafka-python and aiokafka take assignors in ``partition_assignment_strategy`` and call them from
their group coordinator. That interface is too narrow for an assignor that uses racks: the
library decodes subscriptions itself and drops the fields that it does not support, an assignor has
no access to what its consumer owns, and it can neither wait for metadata nor request a rebalance.
So each adapter subclasses its library's coordinator and patches the library to use the subclass:

ClientAssignor
    The options of a strategy, and the history of the assignments made with them. One instance may
    be given to any number of consumers.
BoundAssignor
    One ClientAssignor within the coordinator of one consumer: what the coordinator calls.
ClassPatch
    The replacement of the library's coordinator class, applied when the first assignor of an
    adapter is constructed, so that importing an adapter changes nothing.

An adapter only translates: members and metadata from the library's types, assignments to bytes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar, NoReturn

from assignors.consumer_protocol import ConsumerProtocolError, SubscriptionReader
from assignors.cooperative_sticky import LeaderRackAwareCooperativeSticky
from assignors.group import Group, Members
from assignors.group_leader import (
    GroupContext,
    Leaders,
    LogOnce,
    format_error,
    is_topic_name,
    log,
)
from assignors.group_leader.history import Assignment
from assignors.group_leader.monitor import LeaderMoveMonitor, ReadMetadata
from assignors.group_leader.ownership import Ownership
from assignors.group_leader.rebalance import REVOCATION_TIMEOUT, Rebalance, RebalanceResult
from assignors.leader_moves import DEFAULT_REFRESH_POLICY, RefreshPolicy, validate_refresh
from assignors.model import Assignor, WeightSource
from assignors.rack_discovery import RackSource, resolve_rack
from assignors.range import LeaderRackAwareRange
from assignors.subscriptions import read_members
from placement_core import RackwardError


class CoordinatorNotPatchedError(RackwardError):
    """An assignor was called by a group coordinator other than its adapter's."""


class ClientAssignor:
    """A strategy and its options, for any number of consumers. Subclasses set the class variables.

    Client libraries call ``metadata``, ``assign`` and ``on_assignment`` of the objects in
    ``partition_assignment_strategy``. An adapter's coordinator replaces those objects by bound
    ones, so these methods are only reached from a coordinator that is not the adapter's, and raise
    CoordinatorNotPatchedError: going on would claim partitions that this consumer no longer has,
    or ignore those that other members still read.

    Users may subclass the public classes to fix options or to add some, in ``__init__``. Overriding
    ``metadata``, ``assign`` or ``on_assignment`` has no effect on an adapter's coordinator.
    """

    name: ClassVar[str]
    """The protocol name, by which members of all client libraries join one group."""
    cooperative: ClassVar[bool]
    """Whether members of a group under this name may keep partitions through a rebalance."""
    package: ClassVar[str] = "assignors"
    patched_class: ClassVar[str] = "the client library's group coordinator"

    def __init__(
        self,
        assignor: Assignor,
        rack: str | RackSource | None,
        weights: WeightSource | None,
        refresh: RefreshPolicy | None,
    ) -> None:
        self.rack = resolve_rack(rack, os.environ)
        self.refresh = validate_refresh(refresh)
        self.log_once = LogOnce()
        self.rebalance = Rebalance(
            name=self.name,
            assignor=assignor,
            cooperative=self.cooperative,
            weights=weights,
            log_once=self.log_once,
        )
        self._install_coordinator()

    def last_assignment(self, group: str | None = None) -> Assignment | None:
        """Return the last assignment that this assignor made, of ``group`` or of any.

        None if no consumer with this assignor has been the leader of its group.
        """
        return self.rebalance.history.latest(group)

    def assignments(self) -> tuple[Assignment, ...]:
        """Return the last assignment of each group, for :mod:`assignors.metrics`."""
        return self.rebalance.history.all()

    def _install_coordinator(self) -> None:
        """Patch the client library. By default nothing: the caller makes its own coordinator."""

    @classmethod
    def metadata(cls, topics: Iterable[str]) -> NoReturn:  # noqa: ARG003
        """Raise CoordinatorNotPatchedError."""
        cls._refuse()

    @classmethod
    def assign(cls, cluster: Any, members: Any) -> NoReturn:  # noqa: ARG003
        """Raise CoordinatorNotPatchedError."""
        cls._refuse()

    @classmethod
    def on_assignment(cls, *assignment: Any) -> NoReturn:  # noqa: ARG003
        """Raise CoordinatorNotPatchedError."""
        cls._refuse()

    @classmethod
    def _refuse(cls) -> NoReturn:
        raise CoordinatorNotPatchedError(
            f"{cls.__name__} was called by a group coordinator that {cls.package} did not install:"
            f" before the consumer is constructed, construct the assignor (pass the instance, not"
            f" its class) or call {cls.package}.install(), and do not replace"
            f" {cls.patched_class} afterwards"
        )


class RangeClientAssignor(ClientAssignor):
    """LeaderRackAwareRange as a ClientAssignor; see :class:`assignors.LeaderRackAwareRange`."""

    name = "leader-rack-aware-range"
    cooperative = False

    def __init__(
        self,
        rack: str | RackSource | None = None,
        *,
        weights: WeightSource | None = None,
        max_imbalance: float = 0.0,
        refresh: RefreshPolicy | None = DEFAULT_REFRESH_POLICY,
        co_partitioned: bool = True,
    ) -> None:
        assignor = LeaderRackAwareRange(co_partitioned=co_partitioned, max_imbalance=max_imbalance)
        super().__init__(assignor, rack, weights, refresh)


class CooperativeStickyClientAssignor(ClientAssignor):
    """LeaderRackAwareCooperativeSticky as a ClientAssignor.

    See :class:`assignors.LeaderRackAwareCooperativeSticky`.
    """

    name = "leader-rack-aware-cooperative-sticky"
    cooperative = True

    def __init__(
        self,
        rack: str | RackSource | None = None,
        *,
        weights: WeightSource | None = None,
        max_imbalance: float = 0.0,
        refresh: RefreshPolicy | None = DEFAULT_REFRESH_POLICY,
    ) -> None:
        assignor = LeaderRackAwareCooperativeSticky(max_imbalance=max_imbalance)
        super().__init__(assignor, rack, weights, refresh)


class BoundAssignor:
    """A ClientAssignor within the group coordinator of one consumer.

    ``monitor`` decides when moved leaders justify a rebalance; None if the policy is None.
    """

    def __init__(self, assignor: ClientAssignor) -> None:
        self.assignor = assignor
        policy = assignor.refresh
        self.monitor = None if policy is None else LeaderMoveMonitor(policy, assignor.rebalance)
        self._ownership: Ownership | None = None

    @property
    def name(self) -> str:
        """The protocol name."""
        return self.assignor.name

    def assign(
        self,
        members: Members,
        leaders: Leaders,
        deleted_topics: frozenset[str],
        context: GroupContext,
        now: float,
    ) -> RebalanceResult:
        """Return every member's assignment, and start to monitor the leaders it was made for.

        ``leaders`` are those of `topics_of` the members. ``deleted_topics`` are subscribed topics
        that brokers report as unknown; ``now`` is the time of the monitor's clock. Never raises
        because of what a member sent.
        """
        result = self.assignor.rebalance.run(
            members, leaders, deleted_topics, context, self._ownership
        )
        self._ownership = result.ownership
        if self.monitor is not None:
            self.monitor.start(context.generation, members, result, now)
        return result

    def follow(self) -> None:
        """Note that another member leads: what members can own is not known from then on."""
        self._ownership = None

    def on_revocation_timeout(self, context: GroupContext, withheld: int) -> None:
        """Note that members did not revoke in time, before this member requests a rebalance.

        They have had REVOCATION_TIMEOUT seconds, in a group that was stable. Logs it.
        """
        if self._ownership is not None and self._ownership.generation == context.generation:
            self._ownership = self._ownership.timed_out()
        log.warning(
            "requesting a rebalance because withheld partitions were not revoked in time: %s"
            " withheld=%d seconds=%.0f",
            context,
            withheld,
            REVOCATION_TIMEOUT,
        )

    def resume(
        self,
        members: Iterable[DescribedMember],
        read_metadata: ReadMetadata,
        context: GroupContext,
        now: float,
    ) -> None:
        """Monitor the assignment in force, which this member made before it restarted.

        ``members`` are as brokers describe the group. Only topics are monitored of which this
        consumer has metadata. Never raises because of what a member sent.
        """
        if self.monitor is None:
            return
        described = list(members)
        joined = read_members((id, instance_id, sent) for id, instance_id, sent, _ in described)
        leaders = read_metadata(topics_of(joined))[0]
        assigned = {}
        for member_id, _, _, assignment in described:
            with suppress(ConsumerProtocolError):
                assigned[member_id] = SubscriptionReader().read_assignment(assignment)
        group = Group.of(joined, leaders.racks)
        # The leaders that the assignment was made for are unknown: the first check compares it.
        unknown: dict[str, list[str | None]] = {
            topic: [None] * len(row) for topic, row in leaders.racks.items()
        }
        result = RebalanceResult(
            group.assignment(group.members_of(assigned)), 0, replace(leaders, racks=unknown)
        )
        self.monitor.start(context.generation, joined, result, now)

    def on_assignment(self, *assignment: Any) -> None:
        """Do nothing: what the consumer owns is read from its coordinator when it joins."""


DescribedMember = tuple[str, str | None, bytes, bytes]
"""Member id, instance id, subscription and assignment."""


def is_client_assignor(strategy: object) -> bool:
    """Return whether ``strategy`` is a ClientAssignor, or a class of them."""
    if isinstance(strategy, type):
        return issubclass(strategy, ClientAssignor)
    return isinstance(strategy, ClientAssignor)


def bind(strategies: Iterable[Any], bound: Callable[[ClientAssignor], BoundAssignor]) -> list[Any]:
    """Return ``strategies`` with each ClientAssignor replaced by ``bound`` of it.

    A class is instantiated with its defaults; other assignors stay.
    """
    return [
        bound(strategy() if isinstance(strategy, type) else strategy)
        if is_client_assignor(strategy)
        else strategy
        for strategy in strategies
    ]


def topics_of(members: Members) -> set[str]:
    """Return the topics that members subscribe to, without names that no topic can have."""
    return {name for name in members.topics if is_topic_name(name)}


def log_not_monitored(context: GroupContext, error: Exception) -> None:
    """Log that a leader that restarted could not read its group, and what follows from that."""
    log.warning(
        "leaders that move are not noticed until the next rebalance: %s error=%s",
        context,
        format_error(error),
    )


class ClassPatch:
    """Replaces classes in the module where a client library looks them up; reversible.

    Consumers that exist keep the classes that they were constructed with.
    """

    def __init__(self, module: Any, **replacements: type) -> None:
        self._module = module
        self._replacements = replacements
        self._replaced: dict[str, Any] = {}
        self._lock = threading.Lock()

    def install(self) -> None:
        """Replace each class that is not replaced already."""
        with self._lock:
            for name, replacement in self._replacements.items():
                current = getattr(self._module, name)
                if current is not replacement:
                    self._replaced[name] = current
                    setattr(self._module, name, replacement)

    def uninstall(self) -> None:
        """Put back each class that is still replaced."""
        with self._lock:
            for name, replacement in self._replacements.items():
                if getattr(self._module, name) is replacement:
                    setattr(self._module, name, self._replaced[name])
