"""Leading the consumer groups of any client: the public class.

A `GroupLeader` joins groups as a member that subscribes to nothing. Where it is the leader, it
assigns the partitions of all members by the racks of their leaders; elsewhere it waits to become
the leader (:mod:`rackward.lead.take_over`). It reads no records and commits no offsets.

All groups share one thread, that of kafka-python's event loop, and a few threads that compute.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from kafka import errors as kafka_errors

from rackward.groups.readers import list_matching_groups
from rackward.kafka import AdminConnection, AdminError, CredentialsError, read_state
from rackward.kafka.groups import CLASSIC
from rackward.lead.connection import LeadConnection
from rackward.lead.led_group import LedGroup
from rackward.lead.model import LeadOptions, LeadStatus
from rackward.lead.protocols import CONSUMER

SCAN_SECONDS = 30.0
"""Seconds between two searches for groups that match a pattern."""

LEAVE_SECONDS = 5.0
"""Seconds for which the end of the process waits for the groups to be left."""


class GroupLeader:
    """Leads groups of a cluster, in threads of its own; a context manager.

        with GroupLeader({"bootstrap.servers": "kafka-1:9092"}, ["orders"]) as leader:
            ...
            leader.status()

    ``properties`` are connection properties with Java's or librdkafka's names. After an
    authentication failure, ``read_properties`` returns those of then; if they are the same, the
    groups are not led any more, see ``failure``. Leaving the block leaves the groups, which go on
    with another leader.

    Raises what `rackward.kafka.connect` raises.
    """

    def __init__(
        self,
        properties: Mapping[str, object],
        groups: Iterable[str] = (),
        options: LeadOptions | None = None,
        read_properties: Callable[[], Mapping[str, object]] | None = None,
    ) -> None:
        self._options = options or LeadOptions()
        self._connection = LeadConnection(properties, read_properties=read_properties)
        self._groups: dict[str, LedGroup] = {}
        self._closed = False
        for group in groups:
            self.add(group)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def add(self, group: str) -> None:
        """Lead another group; nothing if it is led already."""
        if group not in self._groups and not self._closed:
            led = self._groups[group] = LedGroup(self._connection, group, self._options)
            led.start()

    def discard(self, group: str) -> None:
        """Leave a group; nothing if it is not led."""
        led = self._groups.pop(group, None)
        if led is not None:
            self._leave([led])

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups, sorted."""
        return tuple(sorted(self._groups))

    @property
    def failure(self) -> AdminError | None:
        """The error that ended leading: authentication fails, also with new properties."""
        return self._connection.failure

    @property
    def open_connections(self) -> int:
        """The number of connections that are open."""
        return self._connection.open_connections

    def status(self) -> tuple[LeadStatus, ...]:
        """Return the status of each group, sorted by name."""
        return tuple(self._groups[group].status for group in self.groups)

    def close(self) -> None:
        """Leave all groups and close the connections. Idempotent."""
        if self._closed:
            return
        self._closed = True
        try:
            self._leave(list(self._groups.values()))
        finally:
            self._connection.close()

    def match_groups(self, patterns: Collection[str]) -> list[str]:
        """Return the groups that ``patterns`` match, see `match_groups`. Raises AdminError."""
        try:
            return match_groups(self._connection.admin, patterns)
        except CredentialsError as error:
            self._connection.renew_credentials(error)
            raise

    def _leave(self, groups: Sequence[LedGroup]) -> None:
        async def leave() -> None:
            futures = [self._connection.start(group.leave) for group in groups]
            deadline = time.monotonic() + LEAVE_SECONDS
            for future in futures:
                with suppress(kafka_errors.KafkaError):
                    await self._connection.wait(future, max(0.001, deadline - time.monotonic()))

        self._connection.run(leave)


def match_groups(admin: AdminConnection, patterns: Collection[str]) -> list[str]:
    """Return the groups that ``patterns`` match, sorted; one without ``*`` matches its own name.

    A pattern matches classic groups of consumers that have members. Raises AdminError.
    """
    names = {each for each in patterns if "*" not in each}
    wild = [each for each in patterns if "*" in each]
    if wild:
        brokers = read_state(admin, (), reassignments=False).view.racks()
        listed = list_matching_groups(admin, brokers, wild, (CLASSIC,))
        names.update(
            group.id
            for group in listed
            if group.protocol_type == CONSUMER and group.state.lower() not in ("empty", "dead")
        )
    return sorted(names)
