"""The two assignors in aiokafka's terms."""

from __future__ import annotations

from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor

from assignors.aiokafka.coordinator import install
from assignors.client_assignor import (
    ClientAssignor,
    CooperativeStickyClientAssignor,
    RangeClientAssignor,
)


class _AIOKafkaAssignor(ClientAssignor, AbstractPartitionAssignor):  # type: ignore[misc]
    """Installs the coordinator, and refuses to work in any other."""

    package = "assignors.aiokafka"
    patched_class = "aiokafka.consumer.consumer.GroupCoordinator"

    def _install_coordinator(self) -> None:
        install()


class LeaderRackAwareRangeAssignor(_AIOKafkaAssignor, RangeClientAssignor):
    """Assigns partition *i* of all topics to one member, in the rack of its leaders if possible.

    rack
        Where this consumer runs; None: see :mod:`assignors.rack_discovery`; if none is found, the
        consumer's ``client_rack``.
    weights
        A topic's traffic per partition, as a mapping or a function. Used by the group leader.
    refresh
        When leaders that moved justify a rebalance; None: never. Used by the group leader.
    max_imbalance, co_partitioned
        See :class:`assignors.LeaderRackAwareRange`.

    Raises InvalidOptionError, and UnsupportedClientError for an unsupported aiokafka.
    """


class LeaderRackAwareCooperativeStickyAssignor(_AIOKafkaAssignor, CooperativeStickyClientAssignor):
    """Balanced, then in the rack of the leader, then where it was before.

    Eager on aiokafka, in spite of its name, which is the protocol's: all members stop reading for a
    rebalance, and get back what they had if that is best.

    Options as for :class:`LeaderRackAwareRangeAssignor`; for ``max_imbalance`` and
    ``balance`` see :class:`assignors.LeaderRackAwareCooperativeSticky`.
    """
