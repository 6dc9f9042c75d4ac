"""Reading from many brokers, in batches, where one broker that fails costs only what it has.

A response that is too large for the client is requested again in two halves. A broker that was
unreachable once is not asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from placement_core import TopicPartition
from rackward.kafka.client import AdminConnection
from rackward.kafka.configs import REPLICA_SELECTOR, read_broker_configs
from rackward.kafka.errors import AdminError, AdminTimeoutError, TooLargeError, UnreachableError
from rackward.kafka.groups import (
    DESCRIBED_TYPES,
    CommittedOffsets,
    Group,
    ListedGroup,
    describe_groups_of_type,
    list_groups,
    read_committed_offsets,
)
from rackward.kafka.metadata import EARLIEST, LATEST, read_log_offsets, read_replica_sizes

GROUPS_PER_REQUEST = 50
PARTITIONS_PER_REQUEST = 5000
MAX_FAULTS = 1000
"""Faults of one reader; a cluster may have any number of invalid members."""

Refused = Mapping[str, AdminError]
"""Group id to the error with which its coordinator refused a request."""

Name = TypeVar("Name")
Response = TypeVar("Response")


@dataclass(frozen=True, slots=True)
class Logs:
    """First offsets, end offsets and sizes in bytes of the leaders' logs, as far as known."""

    starts: dict[TopicPartition, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    sizes: dict[TopicPartition, int] = field(default_factory=dict)


@dataclass
class TolerantReader:
    """Sends requests to brokers, and collects the errors as ``faults`` instead of raising them.

    ``acquire`` is called before every request. ``faults`` are lines, without repetition and in
    order; ``unreachable`` are the brokers that are not asked again.
    """

    admin: AdminConnection
    acquire: Callable[[], None] = lambda: None
    faults: dict[str, None] = field(default_factory=dict)
    unreachable: set[int] = field(default_factory=set)

    def add_faults(self, *faults: str) -> None:
        """Add lines to the faults, up to MAX_FAULTS."""
        for fault in faults:
            if len(self.faults) < MAX_FAULTS:
                self.faults[fault] = None

    def request(self, broker: int, request: Callable[[], Response]) -> Response | None:
        """Return the response; None, with a fault, if there is none. Raises TooLargeError."""
        if broker in self.unreachable:
            return None
        self.acquire()
        try:
            return request()
        except TooLargeError:
            raise
        except AdminError as error:
            self.add_faults(str(error))
            if isinstance(error, UnreachableError | AdminTimeoutError):
                self.unreachable.add(broker)
            return None

    def batches(
        self,
        broker: int,
        names: Sequence[Name],
        request: Callable[[Sequence[Name]], Response],
        size: int = PARTITIONS_PER_REQUEST,
    ) -> Iterator[Response]:
        """Yield the responses for batches of ``names``."""
        for start in range(0, len(names), size):
            batch = names[start : start + size]
            try:
                response = self.request(broker, partial(request, batch))
            except TooLargeError as error:
                if len(batch) == 1:
                    self.add_faults(f"{batch[0]}: {error}")
                else:
                    yield from self.batches(broker, batch, request, (len(batch) + 1) // 2)
            else:
                if response is not None:
                    yield response

    def read_logs(self, leader: int, partitions: Sequence[TopicPartition], logs: Logs) -> None:
        """Add the logs of partitions that ``leader`` leads.

        Sizes and ends are read in direct succession, because one is divided by the other.
        """
        self.read_offsets(leader, partitions, EARLIEST, logs.starts)
        for start in range(0, len(partitions), PARTITIONS_PER_REQUEST):
            batch = partitions[start : start + PARTITIONS_PER_REQUEST]
            read = partial(read_replica_sizes, self.admin, [leader])
            for sizes in self.batches(leader, batch, read):
                logs.sizes.update((tp, size) for (tp, _), size in sizes.items())
            self.read_offsets(leader, batch, LATEST, logs.ends)

    def read_offsets(
        self,
        leader: int,
        partitions: Sequence[TopicPartition],
        timestamp: int,
        offsets: dict[TopicPartition, int],
    ) -> None:
        """Add the offsets at a time, see `rackward.kafka.metadata.read_log_offsets`."""
        read = partial(read_log_offsets, self.admin, leader, timestamp=timestamp)
        for found in self.batches(leader, partitions, read):
            offsets.update(found)

    def replica_selectors(self, brokers: Iterable[int]) -> dict[int, str]:
        """Return the replica.selector.class of each broker, empty if it is not set.

        Brokers that cannot be read are missing, see `broker_configs`.
        """
        configs = self.broker_configs(brokers, [REPLICA_SELECTOR])
        return {broker: values.get(REPLICA_SELECTOR, "") for broker, values in configs.items()}

    def broker_configs(
        self, brokers: Iterable[int], keys: Collection[str]
    ) -> dict[int, dict[str, str]]:
        """Return broker to key to effective value.

        Brokers that cannot be read are missing. After a refusal no more are asked: the right to
        read them is one for the cluster.
        """
        configs: dict[int, dict[str, str]] = {}
        for broker in brokers:
            read = partial(read_broker_configs, self.admin, broker, keys)
            values = self.request(broker, read)
            if values is not None:
                configs[broker] = values
            elif broker not in self.unreachable:
                break
        return configs

    def listed_groups(self, broker: int) -> list[ListedGroup]:
        """Return the groups that ``broker`` coordinates; none, with a fault, if it fails."""
        return self.request(broker, partial(list_groups, self.admin, broker)) or []

    def described_groups(
        self, broker: int, listed: Sequence[ListedGroup]
    ) -> Iterator[tuple[list[Group], Refused]]:
        """Yield groups with their members, and the refused ones.

        Only those of ``listed`` with one of DESCRIBED_TYPES. The errors are not among the faults.
        """
        for type in DESCRIBED_TYPES:
            ids = [each.id for each in listed if each.type == type]
            request = partial(describe_groups_of_type, self.admin, broker, type)
            yield from self.batches(broker, ids, request, GROUPS_PER_REQUEST)

    def committed_offsets(
        self, broker: int, ids: Sequence[str]
    ) -> Iterator[tuple[CommittedOffsets, Refused]]:
        """Yield the committed offsets of groups that ``broker`` coordinates, and the refused ones.

        The errors of the refused ones are not among the faults.
        """
        read = partial(read_committed_offsets, self.admin, broker)
        yield from self.batches(broker, ids, read, GROUPS_PER_REQUEST)
