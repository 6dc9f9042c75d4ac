"""Leading the consumer groups of any client: the public class.

A `GroupLeader` joins groups as a member that subscribes to nothing. Where it is the leader, it
assigns the partitions of all members by the racks of their leaders; elsewhere it waits to become
the leader (:mod:`rackward.lead.take_over`). It reads no records and commits no offsets.

All groups share one thread, that of kafka-python's event loop, and a few threads that compute.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Self

from kafka import errors as kafka_errors

from assignors.group_leader import format_list, sanitize
from rackward.groups.readers import list_matching_groups
from rackward.kafka import AdminConnection, AdminError, CredentialsError, read_state
from rackward.kafka.groups import GroupKind, ListedGroup
from rackward.lead.led_group import LeadOptions, LeadStatus, LedGroup
from rackward.lead.member import LeadConnection
from rackward.lead.protocols import why_refused
from rackward.lead.workers import WorkerGroup, Workers, worker_client_id

SCAN_SECONDS = 30.0
"""Seconds between two searches for groups that match a pattern."""

LEAVE_SECONDS = 5.0
"""Seconds for which the end of the process waits for the groups to be left."""

HAND_OVER_SECONDS = 20.0
"""Seconds for which the end of a worker waits before, until other workers lead its groups."""

POLL_SECONDS = 0.5

log = logging.getLogger("rackward.lead")


class GroupLeader:
    """Leads groups of a cluster.

        leader = GroupLeader({"bootstrap.servers": "kafka-1:9092"}, ["orders", "team-a-*"])
        leader.run()

    ``run`` leads until ``stop``, which a signal handler or another thread calls. Or, beside other
    work, which ``stop`` ends as well::

        with GroupLeader(properties, ["orders"]) as leader:
            ...
            leader.status()

    Groups that are stopped go on with another leader.

    properties
        Connection properties with Java's or librdkafka's names.
    groups
        Names, and patterns in which ``*`` matches any characters: see `match_groups`.
    options
        With a ``worker_group``, the groups are divided among all processes that give it.
    read_properties
        Called after an authentication failure; returns the properties of then. If they are the
        same, the groups are not led any more: see ``failure``.

    Raises what `rackward.kafka.connect` raises.
    """

    def __init__(
        self,
        properties: Mapping[str, object],
        groups: Iterable[str],
        options: LeadOptions | None = None,
        read_properties: Callable[[], Mapping[str, object]] | None = None,
    ) -> None:
        self._options = options or LeadOptions()
        self._patterns = tuple(groups)
        self._matched: set[str] = set()
        self._groups: dict[str, LedGroup] = {}
        self._changing = threading.RLock()
        self._stopped = threading.Event()
        worker_group = self._options.worker_group
        client_id = worker_group and worker_client_id(worker_group, properties.get("client.id"))
        self._connection = LeadConnection(properties, read_properties, client_id)
        self._workers: WorkerGroup | None = None
        if worker_group is not None:
            self._workers = WorkerGroup(self._connection, worker_group, self._divide)
            self._workers.start()
        self._add(name for name in self._patterns if "*" not in name)
        if any("*" in pattern for pattern in self._patterns):
            threading.Thread(target=self._scan, name="rackward-lead-scan", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def run(self) -> None:
        """Lead until `stop`. Raises AdminError if authentication fails, also with new properties;
        the groups are left in any case."""
        try:
            while not self._stopped.wait(POLL_SECONDS):
                if self.failure is not None:
                    raise self.failure
        finally:
            self.stop()

    def stop(self) -> None:
        """Leave all groups and close the connections. Idempotent."""
        with self._changing:
            if self._stopped.is_set():
                return
            self._stopped.set()
        try:
            if self._workers is not None:
                self._hand_over(self._workers)
            self._connection.run(self._leave)
        finally:
            self._connection.close()

    def _hand_over(self, workers: WorkerGroup) -> None:
        """Leave the group of workers, and wait until the others lead the groups."""

        async def leave() -> None:
            with suppress(kafka_errors.KafkaError):
                await self._connection.wait(self._connection.start(workers.leave), LEAVE_SECONDS)

        self._connection.run(leave)
        until = time.monotonic() + HAND_OVER_SECONDS
        while time.monotonic() < until:
            if not any(group.is_handing_over for group in self._groups.copy().values()):
                break
            time.sleep(POLL_SECONDS / 5)

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
        return tuple(group.status for _, group in sorted(self._groups.copy().items()))

    @property
    def workers(self) -> Workers | None:
        """The processes that divide the groups; None without a group of workers."""
        return None if self._workers is None else self._workers.workers

    def _add(self, names: Iterable[str]) -> None:
        with self._changing:
            self._matched.update(names)
        self._divide()

    def _divide(self) -> None:
        """Join the groups that are this process's, and have the others handed over."""
        workers = self._workers
        with self._changing:
            for group in self._groups.values():
                if group.is_handing_over:
                    group.check_owner()
            if self._stopped.is_set():
                return
            for name in sorted(self._matched - self._groups.keys()):
                if workers is None or workers.owner(name) == workers.name:
                    group = LedGroup(self._connection, name, self._options, workers)
                    self._groups[name] = group
                    self._connection.groups = len(self._groups)
                    group.start(partial(self._on_end, name))

    def _on_end(self, name: str) -> None:
        """Forget a group that was handed over; join it again if this process is its owner now."""
        with self._changing:
            if not self._groups[name].handed_over:
                return
            del self._groups[name]
            self._connection.groups = len(self._groups)
        self._divide()

    def _scan(self) -> None:
        """Add the groups that match a pattern, again and again."""
        failure: type[AdminError] | None = None
        ignored: dict[str, str] = {}
        while not self._stopped.is_set():
            try:
                matched = [
                    each
                    for each in list_matched(self._connection.admin, self._patterns)
                    if each.id != self._options.worker_group
                ]
                self._add(each.id for each in matched if each.kind is GroupKind.CLASSIC)
                ignored = self._log_ignored(matched, ignored)
                failure = None
            except AdminError as error:
                if isinstance(error, CredentialsError):
                    self._connection.renew_credentials(error)
                if failure is not type(error) and not self._stopped.is_set():
                    log.warning("searching for groups: %s; retrying", error)
                    failure = type(error)
            except Exception:
                # `stop` has closed the connections.
                if not self._stopped.is_set():
                    raise
            self._stopped.wait(SCAN_SECONDS)

    def _log_ignored(
        self, matched: Iterable[ListedGroup], before: Mapping[str, str]
    ) -> dict[str, str]:
        """Log the groups that are matched and cannot be led, a line per reason, if there are more
        than ``before``; return them with the reasons."""
        ignored = {}
        for group in matched:
            reason = why_refused(group.kind, group.protocol_type, "", self._options.protocols)
            if reason is not None and group.id not in self._groups:
                ignored[group.id] = reason
        if ignored.keys() - before.keys():
            for reason in sorted(set(ignored.values())):
                names = sorted(name for name, why in ignored.items() if why == reason)
                log.info("not led: groups=%s reason=%s", format_list(names), sanitize(reason, 300))
        return ignored

    async def _leave(self) -> None:
        leaving = [self._connection.start(group.leave) for group in self._groups.values()]
        deadline = time.monotonic() + LEAVE_SECONDS
        for left in leaving:
            with suppress(kafka_errors.KafkaError):
                await self._connection.wait(left, max(0.001, deadline - time.monotonic()))


def match_groups(admin: AdminConnection, patterns: Collection[str]) -> list[str]:
    """Return the groups that ``patterns`` match, sorted; one without ``*`` matches its own name.

    A pattern matches classic groups of consumers that have members. Raises AdminError.
    """
    names = {pattern for pattern in patterns if "*" not in pattern}
    listed = list_matched(admin, patterns)
    return sorted(names.union(each.id for each in listed if each.kind is GroupKind.CLASSIC))


def list_matched(admin: AdminConnection, patterns: Collection[str]) -> list[ListedGroup]:
    """Return the groups of any kind with members that a pattern with ``*`` matches.

    Raises AdminError.
    """
    wild = [pattern for pattern in patterns if "*" in pattern]
    if not wild:
        return []
    brokers = read_state(admin, (), reassignments=False).view.racks()
    return [
        group
        for group in list_matching_groups(admin, brokers, wild)
        if group.state.lower() not in ("empty", "dead")
    ]
