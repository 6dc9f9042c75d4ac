"""Workaround for a fault of kafka-python 3.0.12: leaving a group while joining it.

A broker answers the requests of a connection in order, and a JoinGroup when all members have
joined. kafka-python sends LeaveGroup on the connection of the JoinGroup, so ``close()`` and
``unsubscribe()`` block until the slowest member has joined, for 30 s at most. Then the connection
is closed with the LeaveGroup unread: the consumer stays a member until its session expires, and the
group waits for its assignment if it is elected leader.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from kafka.errors import KafkaError, for_code
from kafka.protocol.consumer import LeaveGroupRequest
from kafka.structs import MemberState

from assignors.group_leader import format_error, log
from assignors.kafka_python.commit_queue import second_connection
from assignors.kafka_python.commits import CommitFixes
from assignors.kafka_python.workarounds import MIN_COMMIT_TIMEOUT_MS, wait_for

JOIN_END_MS = 1000
"""Milliseconds that leaving waits for the first response to a new member, which has the member id,
and for the end of a join whose connection was closed."""

FLUSH_PAUSE = 0.02
"""Seconds between two looks at the commit queue."""

MAX_REASON = 255
"""The longest reason of a LeaveGroup that brokers accept, in characters."""


class LeaveFixes(CommitFixes):
    """Leaving without waiting for a join in progress.

    LeaveGroup is sent on the connection of the commits, after those that are queued. Then the
    connection of the join is closed: a response to it would be of no use, and later requests would
    wait for it. A member that has an id and no generation yet leaves too: brokers wait for it.
    """

    async def maybe_leave_group_async(
        self, reason: str | None = None, timeout_ms: float | None = None
    ) -> None:
        """Leave the group, and reset generation and member id; static members only reset them."""
        join = self._join_task
        joining = join is not None and not join.is_done
        has_id_only = self.state is MemberState.UNJOINED and bool(self.membership[1])
        if not self.workarounds_enabled or not (joining or has_id_only):
            await super().maybe_leave_group_async(reason, timeout_ms)
            return
        node = self.coordinator()
        if node is not None and self.is_dynamic_member():
            if not self.membership[1]:
                # Brokers answer the first JoinGroup of a new member at once, with its id.
                await self._wait_for_join(join)
            if self.membership[1]:
                await self._flush_commits()
                await self._send_leave_group(node, reason, timeout_ms)
        self._forget_membership()
        if joining and not join.is_done:
            if node is not None:
                self.manager.close(node)
            await self._wait_for_join(join)
            # A response that had been received may have ended the join successfully.
            self._forget_membership()

    def _forget_membership(self) -> None:
        self._pending_join_result = None
        self.rejoining = False
        self.reset_generation()

    async def _wait_for_join(self, join: Any) -> None:
        # The error of a join is of no interest to a member that leaves.
        with suppress(Exception):
            await wait_for(self.net, join, JOIN_END_MS)

    async def _flush_commits(self) -> None:
        deadline = time.monotonic() + MIN_COMMIT_TIMEOUT_MS / 1000
        while self.commits.flush(0) and time.monotonic() < deadline:
            await self.net.sleep(FLUSH_PAUSE)

    async def _send_leave_group(
        self, node: Any, reason: str | None, timeout_ms: float | None
    ) -> None:
        """Send LeaveGroup once, and wait for its response; log a failure."""
        _, member_id = self.membership
        identity = LeaveGroupRequest.MemberIdentity(
            member_id=member_id,
            group_instance_id=self.group_instance_id,
            reason=None if reason is None else reason[:MAX_REASON],
        )
        request = LeaveGroupRequest(group_id=self.group_id, member_id=member_id, members=[identity])
        try:
            sent = self.manager.send(request, node_id=second_connection(self.manager, node))
            response = await wait_for(self.net, sent, timeout_ms)
            for code in (response.error_code, *(each.error_code for each in response.members)):
                if code:
                    raise for_code(code)()
        except KafkaError as error:
            log.warning(
                "group=%s: LeaveGroup failed, so the group waits for this member until its session"
                " expires: %s",
                self.group_id,
                format_error(error),
            )
