"""Dividing the groups that match among several processes, the workers.

All workers are members of one Kafka group of a protocol type that no consumer has. Its leader sends
the names of all members to each of them, so that all know the same workers in a generation. A group
is led by the worker with the highest hash of both names (`owner_of`): of a worker that ends, only
its own groups move, and to all others alike.

A worker's name is the client id of its members, in the led groups too. So a worker sees which
members belong to another worker, and whether that one is still there:

- A worker that is not the owner of a group any more leads it until the owner has joined it, and
  leaves in that rebalance. Nobody else leads the group meanwhile.
- The members of a worker that is gone are removed by the owner once it has joined. The broker then
  takes the owner for the leader, before the session time-out of the dead member.

Both are one rebalance of the group.
"""

from __future__ import annotations

import json
import logging
import secrets
import socket
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any

from kafka import errors as kafka_errors

from assignors.group_leader import format_error, format_list, sanitize
from rackward.kafka.groups import LEAD_CLIENT_ID
from rackward.lead.member import (
    COORDINATOR_ERRORS,
    HEARTBEAT_SECONDS,
    SESSION_SECONDS,
    GroupMember,
    LeadConnection,
)
from rackward.lead.protocols import client_id_of

WORKER_PROTOCOL_TYPE = "rackward-lead"
"""The protocol type of the workers' group."""

_PROTOCOLS = [("names", b"")]

RETRY_SECONDS = 1.0

log = logging.getLogger("rackward.lead")


def owner_of(group: str, workers: Collection[str]) -> str | None:
    """Return the worker that leads a group, by rendezvous hashing; None if there is no worker."""
    return max(workers, key=lambda worker: (_hash(worker, group), worker), default=None)


def _hash(worker: str, group: str) -> bytes:
    # The key keeps apart ("a", "bc") and ("ab", "c"); a digest, other than hash(), is the same in
    # all processes.
    key = blake2b(worker.encode(), digest_size=32).digest()
    return blake2b(group.encode(), key=key, digest_size=8).digest()


def worker_client_id(worker_group: str, given: object = None) -> str:
    """Return the client id of a new worker: with the ``given`` one, or else the host's name."""
    return f"{_prefix(worker_group)}{given or socket.gethostname()}-{secrets.token_hex(3)}"


def _prefix(worker_group: str) -> str:
    return f"{LEAD_CLIENT_ID}-{worker_group}/"


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers of a group as one of them knows them.

    name
        This worker's.
    names
        Of all workers of the last generation that this one was in, sorted; empty: none yet.
    confirmed
        Whether the coordinator has confirmed within the session time-out that this is still so.
    reason
        Why it is not, in words; empty if it is.
    """

    group: str
    name: str
    names: tuple[str, ...] = ()
    confirmed: bool = False
    reason: str = ""


class WorkerGroup:
    """This process's membership in the group of workers. Runs on the event loop.

    ``on_change`` is called there when the workers have changed.
    """

    def __init__(
        self, connection: LeadConnection, group: str, on_change: Callable[[], None]
    ) -> None:
        self.group = group
        self.name = connection.client_id
        self._names: frozenset[str] = frozenset()
        self._confirmed_at = float("-inf")
        self._reason = "joining the group of workers"
        self._connection = connection
        self._on_change = on_change
        self._member = GroupMember(
            connection,
            group,
            protocol_type=WORKER_PROTOCOL_TYPE,
            session_seconds=SESSION_SECONDS,
            rebalance_seconds=SESSION_SECONDS,
        )
        self._wakeup = connection.notifier()
        self._joined = False
        self.closing = False
        """Whether this process ends."""
        self._running: Any = None

    # ---- called in any thread

    def start(self) -> None:
        """Start to join."""
        self._running = self._connection.start(self._run)

    @property
    def confirmed(self) -> bool:
        """Whether this was a member within the session time-out."""
        return time.monotonic() - self._confirmed_at < SESSION_SECONDS

    @property
    def workers(self) -> Workers:
        """The workers that are known."""
        confirmed = self.confirmed
        reason = "" if confirmed else self._reason
        return Workers(self.group, self.name, tuple(sorted(self._names)), confirmed, reason)

    def owner(self, group: str) -> str | None:
        """Return the worker that leads a group; None if no workers are known."""
        return owner_of(group, self._names)

    def gone(self, members: Iterable[str]) -> list[str]:
        """Return those member ids that belong to workers of this group that are not known now."""
        return [
            member
            for member in members
            if member.startswith(_prefix(self.group)) and client_id_of(member) not in self._names
        ]

    # ---- called on the event loop

    async def confirm(self) -> bool:
        """Return whether the coordinator confirms that all workers are known now.

        Others can only join once this one has joined again.
        """
        with suppress(kafka_errors.KafkaError):
            if self._joined:
                await self._member.heartbeat(SESSION_SECONDS)
                return self._joined
        return False

    async def leave(self) -> None:
        """Leave. From then on, groups belong to the remaining workers."""
        self.closing = True
        self._wakeup.notify()
        self._joined, self._confirmed_at = False, float("-inf")
        self._reason = "it ends"
        await self._end()
        self._names -= {self.name}
        self._on_change()

    async def _end(self) -> None:
        with suppress(kafka_errors.KafkaError):
            await self._member.leave("the process ends")

    async def _run(self) -> None:
        while not self.closing:
            await self._wakeup(await self._step())
        # An id that was given after `leave` sent its request.
        await self._end()

    async def _step(self) -> float:
        """Join, or send a heartbeat; return the seconds until the next step."""
        try:
            if not self._joined:
                await self._join()
            else:
                sent_at = time.monotonic()
                await self._member.heartbeat(SESSION_SECONDS)
                self._confirmed_at = sent_at
            return HEARTBEAT_SECONDS
        except (kafka_errors.RebalanceInProgressError, kafka_errors.IllegalGenerationError):
            self._joined = False
            return 0.0
        except kafka_errors.UnknownMemberIdError:
            self._joined = False
            self._member.forget()
            return 0.0
        except kafka_errors.SaslAuthenticationFailedError as error:
            self._fail(error)
            await self._connection.in_worker(partial(self._connection.renew_credentials, error))
            return RETRY_SECONDS
        except kafka_errors.KafkaError as error:
            self._fail(error)
            return RETRY_SECONDS / 4 if isinstance(error, COORDINATOR_ERRORS) else RETRY_SECONDS
        except (ValueError, TypeError) as error:
            self._joined = False
            self._fail(error)
            return RETRY_SECONDS

    def _fail(self, error: Exception) -> None:
        self._member.forget_coordinator()
        reason = format_error(error)
        if isinstance(error, kafka_errors.GroupAuthorizationFailedError):
            reason = "not authorized: grant this user Read on the group"
        if isinstance(error, kafka_errors.InconsistentGroupProtocolError):
            reason = "it is a group of consumers: choose another name"
        if reason != self._reason:
            log.warning("worker-group=%s error=%s", sanitize(self.group), sanitize(reason, 300))
        self._reason = reason

    async def _join(self) -> None:
        if not self._member.id:
            self._member.id = await self._member.request_id(_PROTOCOLS)
        if self.closing:
            return
        joined = await self._member.join(_PROTOCOLS, "a worker joins")
        if self.closing:
            return
        sent_at = time.monotonic()
        if joined.leader == self._member.id:
            content = json.dumps([client_id_of(member.id) for member in joined.members]).encode()
            received = await self._member.sync({m.id: content for m in joined.members})
        else:
            received = await self._member.sync()
        names = frozenset(json.loads(received))
        if self.closing:
            return
        self._joined, self._confirmed_at, self._reason = True, sent_at, ""
        if names != self._names:
            log.info(
                "workers: group=%s count=%d names=%s",
                sanitize(self.group),
                len(names),
                format_list(sorted(names)),
            )
            self._names = names
            self._on_change()
