"""The two assignors as aiokafka knows assignors."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, NoReturn

from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor

from assignors.cooperative_sticky import LeaderRackAwareCooperativeSticky
from assignors.group_leader import Assignor, Rebalance, Remarks, Remembering, WeightSource
from assignors.leader_moves import DEFAULT_REFRESH, RefreshPolicy, checked_refresh
from assignors.rack_discovery import RackSource, chosen_rack
from assignors.range import LeaderRackAwareRange
from placement_core import RackwardError

# ---- What can be wrong with the aiokafka that is installed, or with how it is used.


class UnsupportedAiokafkaError(RackwardError):
    """The installed aiokafka is too old, or lacks what the adapter stands on."""


class UnseatedAssignorError(RackwardError):
    """An assignor was asked by a coordinator that is not ours."""


class LeaderRackAwareAssignor(Remembering, AbstractPartitionAssignor):  # type: ignore[misc]
    """What both strategies share; not to be used itself.

    These are the options. An instance can be given to any number of consumers: what belongs to
    one consumer is kept by the :class:`~assignors.aiokafka.coordinator.Seat` that each has of its
    own, and that is what a coordinator asks. To one that asks the assignor itself, this refuses
    before it joins: it would pass over what members of other clients own, and two members would
    read one partition.
    """

    name: str
    sticky: bool

    def __init__(
        self,
        assignor: Assignor,
        rack: str | RackSource | None,
        weights: WeightSource | None,
        refresh: RefreshPolicy | None,
    ) -> None:
        self.rack = chosen_rack(rack, os.environ)
        self.refresh = checked_refresh(refresh)
        self.remarks = Remarks()
        self.rebalance = Rebalance(
            name=self.name,
            assignor=assignor,
            # Members of other clients may own partitions while they join under this name.
            cooperative=self.sticky,
            weights=weights,
            remarks=self.remarks,
        )

    def metadata(self, topics: Iterable[str]) -> NoReturn:  # noqa: ARG002
        """Raise UnseatedAssignorError."""
        self._refuse()

    def assign(self, cluster: Any, members: Any) -> NoReturn:  # noqa: ARG002
        """Raise UnseatedAssignorError."""
        self._refuse()

    def on_assignment(self, assignment: Any) -> NoReturn:  # noqa: ARG002
        """Raise UnseatedAssignorError."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise UnseatedAssignorError(
            f"{type(self).__name__} was asked by a coordinator that assignors.aiokafka did not"
            " make: start the AIOKafkaConsumer after assignors.aiokafka is imported, and leave"
            " aiokafka.consumer.consumer.GroupCoordinator as it then is"
        )


class LeaderRackAwareRangeAssignor(LeaderRackAwareAssignor):
    """Partition *i* of all topics to one member, in the rack of its leaders where possible.

    ``rack`` is where this consumer runs (None: see :mod:`assignors.rack_discovery`); ``weights``
    gives a topic's traffic per partition, as a mapping or a function, and counts on whichever
    member leads the group; so does ``refresh``, when leaders that moved are worth a rebalance
    (None: never); for ``co_partitioned`` and ``max_imbalance`` see
    :class:`assignors.LeaderRackAwareRange`. Raises InvalidOptionError.
    """

    name = "leader-rack-aware-range"
    sticky = False

    def __init__(
        self,
        rack: str | RackSource | None = None,
        *,
        weights: WeightSource | None = None,
        max_imbalance: float = 0.0,
        refresh: RefreshPolicy | None = DEFAULT_REFRESH,
        co_partitioned: bool = True,
    ) -> None:
        super().__init__(
            LeaderRackAwareRange(co_partitioned=co_partitioned, max_imbalance=max_imbalance),
            rack,
            weights,
            refresh,
        )


class LeaderRackAwareCooperativeStickyAssignor(LeaderRackAwareAssignor):
    """Balanced, then in the rack of the leader, then where it was before.

    Eager on aiokafka, in spite of its name, which is that of the protocol: all members stop
    reading for a rebalance, and get back what they had where that is best. Options as for
    :class:`LeaderRackAwareRangeAssignor`; for ``max_imbalance`` see
    :class:`assignors.LeaderRackAwareCooperativeSticky`.
    """

    name = "leader-rack-aware-cooperative-sticky"
    sticky = True

    def __init__(
        self,
        rack: str | RackSource | None = None,
        *,
        weights: WeightSource | None = None,
        max_imbalance: float = 0.0,
        refresh: RefreshPolicy | None = DEFAULT_REFRESH,
    ) -> None:
        super().__init__(
            LeaderRackAwareCooperativeSticky(max_imbalance=max_imbalance), rack, weights, refresh
        )
