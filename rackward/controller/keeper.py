"""Keeps intents: turn by turn, looks at the cluster and does what `keeping.decide` says."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from placement_core import ClusterView, TopicPartition
from placement_core.locators import RackLocator, locate
from placement_core.moves import Move
from rackward.admin import ClusterState
from rackward.controller.cluster import KeptCluster
from rackward.controller.keeping import Decision, Memory, Patience, decide
from rackward.controller.lease import Lease
from rackward.intents import INTENTS_TOPIC, Intent
from rackward.units import bytes_text

AT_ONCE = 100
"""Partitions that are filled at a time."""
GONE_SECONDS = 5.0
"""How long the topic of intents has to be gone: a broker may not have heard of it yet."""

log = logging.getLogger("rackward.controller")


class Step(Enum):
    """Where a turn is, for tests that break it off."""

    DECIDED = "decided"
    RECORDED = "recorded"
    CONFIRMED = "confirmed"
    ASKED = "asked"


@dataclass(frozen=True, slots=True)
class Kept:
    """``held``: whether this controller keeps the intents. ``intents`` there are, ``open``
    partitions among them, ``under_way``, and ``waiting`` replicas that no broker can take yet."""

    held: bool = False
    intents: int = 0
    open: int = 0
    under_way: int = 0
    waiting: int = 0


class Keeper:
    """One controller's part in keeping the intents.

    ``locator`` says the racks (None: racks do not count); ``clock`` counts seconds; ``throttle``
    is how many bytes per second a broker may send and receive for fills (None: no bound); ``step``
    is called between the steps of a fill.
    """

    def __init__(
        self,
        cluster: KeptCluster,
        lease: Lease,
        locator: RackLocator | None,
        clock: Callable[[], float],
        *,
        at_once: int = AT_ONCE,
        throttle: int | None = None,
        patience: Patience | None = None,
        step: Callable[[Step], None] = lambda _: None,
    ) -> None:
        self._cluster, self._lease, self._locator = cluster, lease, locator
        self._clock, self._at_once, self._step = clock, at_once, step
        self._throttle, self._patience = throttle, patience
        self._memory = Memory()
        self._topic_id: str | None = None
        self._gone_since: float | None = None
        self._refused: dict[TopicPartition, str] = {}
        self._throttled: bool | None = None
        """None: not known, as somebody else may have done it."""
        self.kept = Kept()
        """What the last turn found."""
        self.asked = 0
        """Partitions that the cluster was asked to fill."""

    def turn(self, seconds: float) -> None:
        """Read intents for so long, then do what there is to do. Raises AdminError."""
        self._lease.poll(seconds)
        intents = dict(self._lease.intents)
        topics = {INTENTS_TOPIC, *(intent.topic for intent in intents.values())}
        state = self._cluster.look(topics)
        if self._is_restored(state, intents) or not self._lease.held:
            self.kept, self._throttled = Kept(), None
            return
        decision = self._decide(intents, state)
        if any(row is not None for row in decision.targets.values()):
            # Loads count now, and so does everything else that brokers hold.
            state = self._cluster.look(None)
            decision = self._decide(intents, state)
        self._memory = decision.memory
        self.kept = Kept(
            held=True,
            intents=len(intents),
            open=sum(len(intent.open) for intent in intents.values()),
            under_way=decision.under_way,
            waiting=decision.waiting,
        )
        # Whoever began these may not have lived to take the throttle back.
        over = not decision.under_way and any(intent.filling for intent in intents.values())
        self._carry_out(decision, state, unthrottle=over and self._throttled is not False)

    def _decide(self, intents: dict[str, Intent], state: ClusterState) -> Decision:
        return decide(
            intents,
            state,
            self._view(state),
            self._clock(),
            self._memory,
            self._at_once,
            self._patience,
        )

    def _view(self, state: ClusterState) -> ClusterView:
        if self._locator is None:
            return state.view.without_racks()
        return locate(self._locator, state.view)

    def _carry_out(self, decision: Decision, state: ClusterState, *, unthrottle: bool) -> None:
        if not (decision.records or decision.forgotten or decision.targets or unthrottle):
            return
        self._step(Step.DECIDED)
        # Not by somebody who was asleep while another took over.
        if not self._lease.confirm():
            return
        if unthrottle:
            # Before the records go by which a successor would know that there is something to do.
            if self._cluster.unthrottle():
                log.info("nothing is being filled: the throttle is lifted")
            self._throttled = False
        if decision.records or decision.forgotten:
            self._cluster.write(decision.records, decision.forgotten.keys())
            self._lease.written(decision.records, decision.forgotten)
        for line in decision.told:
            log.info("%s", line)
        self._step(Step.RECORDED)
        moves = _moves(state, decision)
        if moves and self._throttle is not None:
            if not self._throttled:
                log.info("brokers copy at most %s per second", bytes_text(self._throttle))
            self._throttled = True
            self._cluster.throttle(self._throttle, moves)
        if not decision.targets or not self._lease.confirm():
            return
        self._step(Step.CONFIRMED)
        refused = self._cluster.reassign(decision.targets)
        self.asked += len(decision.targets) - len(refused)
        for place, error in refused.items():
            if self._refused.get(place) != str(error):
                log.warning("%s", error)
        self._refused = {place: str(error) for place, error in refused.items()}
        self._step(Step.ASKED)

    def _is_restored(self, state: ClusterState, intents: dict[str, Intent]) -> bool:
        """Make the topic of intents again where it was deleted; whether that was the case."""
        found = state.topic_ids.get(INTENTS_TOPIC)
        present = INTENTS_TOPIC in state.topic_ids
        if present and found in (self._topic_id, None):
            self._gone_since = None
            if not self._lease.owned:
                # Another controller keeps them, and knows better.
                self._lease.forget()
            return False
        if self._topic_id is None:
            self._topic_id = found
            return False
        now = self._clock()
        if self._gone_since is None:
            self._gone_since = now
        if now - self._gone_since < GONE_SECONDS:
            return True
        log.warning(
            "topic %s was deleted%s: writing its %d intents again",
            INTENTS_TOPIC,
            " and made anew" if present else "",
            len(intents),
        )
        itself = self._cluster.ensure_topic()
        kept = [intent for intent in intents.values() if intent.topic != INTENTS_TOPIC]
        self._cluster.write([*kept, *([itself] if itself is not None else [])])
        self._lease.forget()
        self._topic_id = self._cluster.look([INTENTS_TOPIC]).topic_ids.get(INTENTS_TOPIC)
        self._gone_since = None
        return True


def _moves(state: ClusterState, decision: Decision) -> list[Move]:
    return [
        Move(place, state.view.replicas[place], row)
        for place, row in sorted(decision.targets.items())
        if row is not None
    ]
