"""What the assignors of all Python client libraries share; imports no client library, nor numpy.

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

These coordinators behave exactly like their library's unless a consumer has one of the assignors.
What they do differently for any library:

Subscriptions
    The library decodes every subscription before it calls the assignor. A truncated one stops the
    leader, and the next one. Here a subscription is read as far as possible, with all its fields.
The rack
    An assignor without a rack joins with the consumer's ``client_rack``. The fetcher does not send
    it, because brokers would redirect the consumer to followers, and assignment by the racks of
    leaders be in vain.
Leaders that move
    No client rebalances when a partition's leader moves. Here the group leader checks the leaders
    at an interval, and requests a rebalance if its policy says so: see
    :mod:`assignors.leader_moves`.
Partitions that are not revoked
    Partitions that a member still owns are withheld until it has revoked them and rejoined. If a
    foreign client does not, the leader requests the next rebalance itself, and its claims lapse:
    see :mod:`assignors.group_leader.ownership`.

An adapter only translates: members and metadata from the library's types, assignments to bytes.
numpy takes 17 MB, and only the leader of a group assigns: it is imported when a consumer leads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from assignors.group_leader import GroupContext, LogOnce, format_error, log
from assignors.leader_moves import DEFAULT_REFRESH_POLICY, RefreshPolicy, validate_refresh
from assignors.model import Assignor, WeightSource, validate_balance, validate_imbalance
from assignors.rack_discovery import RackSource, member_rack, resolve_rack
from placement_core import RackwardError

if TYPE_CHECKING:
    from assignors.group_leader.history import Assignment
    from assignors.group_leader.rebalance import GroupProtocol


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

    workarounds: bool = True
    """Whether faults of the client library are worked around, where an adapter does so."""

    def __init__(
        self,
        rack: str | RackSource | None,
        weights: WeightSource | None,
        refresh: RefreshPolicy | None,
    ) -> None:
        self.rack = resolve_rack(rack, os.environ)
        self._refresh = validate_refresh(refresh)
        self.log_once = LogOnce()
        self._weights = weights
        self._protocol: GroupProtocol | None = None
        self._lock = threading.Lock()
        self._install_coordinator()

    @property
    def protocol(self) -> GroupProtocol:
        """How the leader of a group assigns with this assignor. It needs numpy."""
        with self._lock:
            if self._protocol is None:
                from assignors.group_leader.rebalance import GroupProtocol

                self._protocol = GroupProtocol(
                    name=self.name,
                    assignor=self._make_assignor(),
                    cooperative=self.cooperative,
                    weights=self._weights,
                    log_once=self.log_once,
                    refresh=self._refresh,
                )
            return self._protocol

    def _make_assignor(self) -> Assignor:
        """Return what computes assignments, with this assignor's options."""
        raise NotImplementedError

    def last_assignment(self, group: str | None = None) -> Assignment | None:
        """Return the last assignment that this assignor made, of ``group`` or of any.

        None if no consumer with this assignor has been the leader of its group.
        """
        return None if self._protocol is None else self._protocol.history.latest(group)

    def assignments(self) -> tuple[Assignment, ...]:
        """Return the last assignment of each group, for :mod:`assignors.metrics`."""
        return () if self._protocol is None else self._protocol.history.all()

    def _install_coordinator(self) -> None:
        """Patch the client library. By default nothing: the caller makes its own coordinator."""

    @classmethod
    def _refuse(cls, *_arguments: Any) -> NoReturn:
        raise CoordinatorNotPatchedError(
            f"{cls.__name__} was called by a group coordinator that {cls.package} did not install:"
            f" before the consumer is constructed, construct the assignor (pass the instance, not"
            f" its class) or call {cls.package}.install(), and do not replace"
            f" {cls.patched_class} afterwards"
        )

    metadata = assign = on_assignment = _refuse


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
        validate_imbalance(max_imbalance)
        self._max_imbalance, self._co_partitioned = max_imbalance, co_partitioned
        super().__init__(rack, weights, refresh)

    def _make_assignor(self) -> Assignor:
        from assignors.range import LeaderRackAwareRange

        return LeaderRackAwareRange(
            co_partitioned=self._co_partitioned, max_imbalance=self._max_imbalance
        )


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
        balance: str = "partitions",
    ) -> None:
        validate_imbalance(max_imbalance)
        validate_balance(balance)
        self._max_imbalance, self._balance = max_imbalance, balance
        super().__init__(rack, weights, refresh)

    def _make_assignor(self) -> Assignor:
        from assignors.cooperative_sticky import LeaderRackAwareCooperativeSticky

        return LeaderRackAwareCooperativeSticky(
            max_imbalance=self._max_imbalance, balance=self._balance
        )


class BoundAssignor:
    """A ClientAssignor within the group coordinator of one consumer."""

    def __init__(self, assignor: ClientAssignor, client_rack: str | None = None) -> None:
        """``client_rack`` is the consumer's, for an assignor without a rack."""
        self.assignor = assignor
        self.rack = member_rack(assignor.rack, client_rack, assignor.log_once)

    @property
    def name(self) -> str:
        """The protocol name."""
        return self.assignor.name

    def on_assignment(self, *assignment: Any) -> None:
        """Do nothing: what the consumer owns is read from its coordinator when it joins."""


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
