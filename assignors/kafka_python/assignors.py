"""The two assignors in kafka-python's terms, and the patch for the coordinator that they need."""

from __future__ import annotations

from typing import Any, NoReturn

import kafka.consumer.group
from kafka.consumer.fetcher import Fetcher
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor

from assignors.client_assignor import (
    ClassPatch,
    ClientAssignor,
    CooperativeStickyClientAssignor,
    RangeClientAssignor,
    is_client_assignor,
)
from assignors.kafka_python.coordinator import RackAwareCoordinator
from assignors.kafka_python.internals import check_kafka_python
from assignors.leader_moves import DEFAULT_REFRESH_POLICY, RefreshPolicy
from assignors.model import WeightSource
from assignors.rack_discovery import RackSource


class LeaderFetcher(Fetcher):  # type: ignore[misc]
    """kafka-python's fetcher, which sends no rack if the consumer has one of these assignors.

    Brokers with a rack-aware ``replica.selector.class`` would redirect it to followers.
    """

    def __init__(self, client: Any, subscriptions: Any, **configs: Any) -> None:
        if any(map(is_client_assignor, configs.get("partition_assignment_strategy", ()))):
            configs["client_rack"] = ""
        super().__init__(client, subscriptions, **configs)


_patch = ClassPatch(
    kafka.consumer.group, ConsumerCoordinator=RackAwareCoordinator, Fetcher=LeaderFetcher
)


def install() -> None:
    """Make every KafkaConsumer that is constructed from now on use the classes of this adapter.

    Constructing one of the assignors does this too. Idempotent and thread-safe. Raises
    UnsupportedClientError if the installed kafka-python lacks what the adapter relies on.
    """
    check_kafka_python()
    _patch.install()


def uninstall() -> None:
    """Make new KafkaConsumers use kafka-python's own coordinator again.

    Consumers that exist keep theirs. Assignors that exist cannot be given to new consumers until
    `install` is called again.
    """
    _patch.uninstall()


class _KafkaPythonAssignor(ClientAssignor, AbstractPartitionAssignor):  # type: ignore[misc]
    """Installs the coordinator, and refuses to work in any other."""

    package = "assignors.kafka_python"
    patched_class = "kafka.consumer.group.ConsumerCoordinator"

    def _install_coordinator(self) -> None:
        install()

    def supported_protocols(self) -> NoReturn:
        """Raise CoordinatorNotPatchedError, while the KafkaConsumer is being constructed."""
        self._refuse()


class LeaderRackAwareRangeAssignor(_KafkaPythonAssignor, RangeClientAssignor):
    """Assigns partition *i* of all topics to one member, in the rack of its leaders if possible.

    Eager: all partitions are revoked before a rebalance.

    rack
        Where this consumer runs; None: see :mod:`assignors.rack_discovery`; if none is found, the
        consumer's ``client_rack``.
    weights
        A topic's traffic per partition, as a mapping or a function. Used by the group leader.
    refresh
        When leaders that moved justify a rebalance; None: never. Used by the group leader.
    workarounds
        False leaves kafka-python's faults as they are; see docs/kafka-python.md.
    max_imbalance, co_partitioned
        See :class:`assignors.LeaderRackAwareRange`.

    Raises InvalidOptionError, and UnsupportedClientError for an unsupported kafka-python.
    """

    def __init__(
        self,
        rack: str | RackSource | None = None,
        *,
        weights: WeightSource | None = None,
        max_imbalance: float = 0.0,
        refresh: RefreshPolicy | None = DEFAULT_REFRESH_POLICY,
        co_partitioned: bool = True,
        workarounds: bool = True,
    ) -> None:
        super().__init__(
            rack,
            weights=weights,
            max_imbalance=max_imbalance,
            refresh=refresh,
            co_partitioned=co_partitioned,
        )
        self.workarounds = workarounds


class LeaderRackAwareCooperativeStickyAssignor(
    _KafkaPythonAssignor, CooperativeStickyClientAssignor
):
    """Balanced, then in the rack of the leader, then where it was before.

    Cooperative: a member reads on from the partitions that it keeps through a rebalance, and those
    that move do so in two rounds. Listed beside an eager assignor, for a rolling change, all
    partitions are revoked before a rebalance until that one is removed.

    Options as for :class:`LeaderRackAwareRangeAssignor`; for ``max_imbalance`` and ``balance`` see
    :class:`assignors.LeaderRackAwareCooperativeSticky`.
    """

    def __init__(
        self,
        rack: str | RackSource | None = None,
        *,
        weights: WeightSource | None = None,
        max_imbalance: float = 0.0,
        refresh: RefreshPolicy | None = DEFAULT_REFRESH_POLICY,
        balance: str = "partitions",
        workarounds: bool = True,
    ) -> None:
        super().__init__(
            rack, weights=weights, max_imbalance=max_imbalance, refresh=refresh, balance=balance
        )
        self.workarounds = workarounds
