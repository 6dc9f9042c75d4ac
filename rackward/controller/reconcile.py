"""What is to be done about the intents now: pure.

An intent is kept in steps that each leave a record behind, so that whoever is killed in between,
or loses the lease, leaves to the next one what it needs to go on and to do nothing twice:

1. *record*  the replica lists that were decided on are written into the intent;
2. *ask*     the cluster is asked for them; asked again for the same, it does nothing;
3. *filled*  the cluster says that they are there: the partitions leave the intent;
4. *forget*  an intent without partitions is deleted.

What the cluster says goes before what is recorded: a partition that has its replicas is never
asked for again, and one that somebody is reassigning is left alone until that is over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from placement_core import ClusterView, TopicPartition
from placement_core.under_replication import Wanted, fill, held_by
from rackward.admin import ClusterState
from rackward.controller.pending_replicas import Intent, layout_digest

Rows = dict[TopicPartition, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds. ``unfit``: how long a topic may be missing, or be another, until its intent is
    forgotten: a broker that has just come back may not have heard of it. ``stuck``: how long a
    broker may be down that is to get a replica, until another is chosen for it."""

    unfit: float = 60.0
    stuck: float = 300.0


@dataclass(frozen=True, slots=True)
class Memory:
    """Since when (seconds of a clock) things are not as they should be."""

    unfit: Mapping[str, float] = field(default_factory=dict)
    stuck: Mapping[TopicPartition, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, in this order: write ``records``, delete ``forgotten`` (key to reason), ask for
    ``targets`` (None: cancel what is under way). ``told`` is for the log; ``under_way`` are the
    partitions that get replicas, these among them, and ``waiting`` the replicas that nobody can
    take yet."""

    records: tuple[Intent, ...] = ()
    forgotten: Mapping[str, str] = field(default_factory=dict)
    targets: Mapping[TopicPartition, tuple[int, ...] | None] = field(default_factory=dict)
    told: tuple[str, ...] = ()
    under_way: int = 0
    waiting: int = 0
    memory: Memory = field(default_factory=Memory)


def decide(
    intents: Mapping[str, Intent],
    state: ClusterState,
    view: ClusterView,
    now: float,
    memory: Memory,
    at_once: int,
    patience: Patience | None = None,
) -> Decision:
    """What keeps the intents, by key.

    ``state`` has at least their topics, with what is under way; ``view`` is the same with the
    racks as the locator tells them, and where loads are to count, with all topics. ``at_once`` is
    how many partitions may be on their way at a time.
    """
    patience = patience or Patience()
    found = _Findings(state, view, now, memory, patience)
    for key in sorted(intents):
        found.look(intents[key])
    found.choose(at_once)
    return found.decision()


class _Findings:
    """Gathers a decision, intent by intent."""

    def __init__(
        self,
        state: ClusterState,
        view: ClusterView,
        now: float,
        memory: Memory,
        patience: Patience,
    ) -> None:
        self.state, self.view, self.now = state, view, now
        self.memory, self.patience = memory, patience
        self.live = view.racks().keys()
        self.before: dict[str, Intent] = {}
        self.after: dict[str, Intent] = {}
        self.forgotten: dict[str, str] = {}
        self.targets: dict[TopicPartition, tuple[int, ...] | None] = {}
        self.told: list[str] = []
        self.unfit: dict[str, float] = {}
        self.stuck: dict[TopicPartition, float] = {}
        self.under_way = 0
        self.waiting = 0

    def look(self, intent: Intent) -> None:
        """Compare an intent with the cluster."""
        self.before[intent.key] = intent
        if (reason := self._unfit(intent)) is not None:
            since = self.memory.unfit.get(intent.key, self.now)
            if self.now - since >= self.patience.unfit:
                self.forgotten[intent.key] = reason
                self.told.append(f"{intent.topic}: forgotten, {reason}")
            else:
                self.unfit[intent.key] = since
            return
        if intent.topic_id is None:
            intent = replace(intent, topic_id=self.state.topic_ids[intent.topic])
        done = [number for number in intent.open if self._is_filled(intent, number)]
        if done:
            intent = replace(
                intent,
                open=tuple(number for number in intent.open if number not in set(done)),
                filling={n: row for n, row in intent.filling.items() if n not in set(done)},
            )
            self.told.append(
                f"{intent.topic}: {len(done)} partitions have their "
                f"{intent.replication_factor} replicas"
            )
        if not intent.open:
            self.forgotten[intent.key] = "all of it is filled"
            self.told.append(f"{intent.topic}: all placeholders are filled")
            return
        self.after[intent.key] = intent

    def choose(self, at_once: int) -> None:
        """Ask for what was decided on, and decide on more, up to so many partitions."""
        wanted: dict[TopicPartition, Wanted] = {}
        owner: dict[TopicPartition, str] = {}
        for key, intent in self.after.items():
            for number in intent.open:
                place = TopicPartition(intent.topic, number)
                if place in owner or place not in self.state.view.replicas:
                    continue
                owner[place] = key
                if place in self.state.ongoing:
                    self._watch(intent, place)
                elif self._resumed(intent, place):
                    self.under_way += 1
                else:
                    wanted[place] = intent.wanted
        busy = self.state.ongoing.keys()
        filled = fill(self.view, wanted, busy, self.state.fenced)
        room = max(0, at_once - self.under_way)
        chosen = dict(sorted(filled.items())[:room])
        self.under_way += len(chosen)
        for place, row in chosen.items():
            key = owner[place]
            intent = self.after[key]
            filling = {**intent.filling, place.partition: row}
            self.after[key] = replace(intent, filling=filling)
            self.targets[place] = row
        self.waiting = sum(
            max(0, want.replication_factor - len(self._held(place, want, filled.get(place))))
            for place, want in wanted.items()
        )
        self._tell(chosen)

    def decision(self) -> Decision:
        """All of it."""
        return Decision(
            records=tuple(
                intent for key, intent in self.after.items() if intent != self.before[key]
            ),
            forgotten=self.forgotten,
            targets=self.targets,
            told=tuple(self.told),
            under_way=self.under_way,
            waiting=self.waiting,
            memory=Memory(self.unfit, self.stuck),
        )

    def _unfit(self, intent: Intent) -> str | None:
        """Why this is not the topic of the intent."""
        replicas = self.state.view.replicas
        if intent.topic not in self.state.topic_ids:
            made = "is gone" if intent.topic_id is not None else "was never made"
            return f"the topic {made}"
        found = self.state.topic_ids[intent.topic]
        if intent.topic_id is not None and found != intent.topic_id:
            return "the topic is another one of the same name"
        rows = {
            number: replicas[place]
            for number in intent.open
            if (place := TopicPartition(intent.topic, number)) in replicas
        }
        if not rows:
            return "its partitions were never made"
        if intent.topic_id is None and layout_digest(rows) != intent.layout:
            return "the topic was made by somebody else, with another layout"
        return None

    def _is_filled(self, intent: Intent, number: int) -> bool:
        place = TopicPartition(intent.topic, number)
        row = self.state.view.replicas.get(place, ())
        if place in self.state.ongoing:
            return False
        held = held_by(row, intent.wanted, self.live)
        # A stand-in that is back counts once it has caught up.
        behind = intent.stand_ins.intersection(held).difference(self.state.in_sync.get(place, ()))
        return len(held) >= intent.replication_factor and not behind

    def _watch(self, intent: Intent, place: TopicPartition) -> None:
        """What is under way goes on, unless a broker that it waits for stays away."""
        self.under_way += 1
        ongoing = self.state.ongoing[place]
        ours = intent.filling.get(place.partition)
        away = [broker for broker in ongoing.adding if broker not in self.live]
        if not away or ours is None or set(ongoing.target) != set(ours):
            return
        row = tuple(b for b in ongoing.replicas if b not in ongoing.adding)
        without = replace(self.view, replicas={**self.view.replicas, place: row})
        since = self.memory.stuck.get(place, self.now)
        if not fill(without, {place: intent.wanted}, down=self.state.fenced):
            return
        if self.now - since < self.patience.stuck:
            self.stuck[place] = since
            return
        self.targets[place] = None
        filling = {n: each for n, each in intent.filling.items() if n != place.partition}
        current = self.after[intent.key]
        self.after[intent.key] = replace(current, filling=filling)
        self.told.append(
            f"{place.topic}-{place.partition}: broker {away[0]} stays away, another takes its place"
        )

    def _resumed(self, intent: Intent, place: TopicPartition) -> bool:
        """Ask again for what was decided on, where it can still be had and is not there."""
        row = intent.filling.get(place.partition)
        if row is None:
            return False
        present = self.state.view.replicas[place]
        new = [broker for broker in row if broker not in present]
        if not new or any(broker not in self.live for broker in new):
            return False
        if any(b in self.live and b not in row for b in present):
            # Somebody has moved it meanwhile.
            return False
        self.targets[place] = row
        return True

    def _held(
        self, place: TopicPartition, want: Wanted, row: tuple[int, ...] | None
    ) -> tuple[int, ...]:
        return held_by(row or self.view.replicas[place], want, self.live)

    def _tell(self, chosen: Rows) -> None:
        by_topic: dict[str, Rows] = {}
        for place, row in chosen.items():
            by_topic.setdefault(place.topic, {})[place] = row
        for topic, rows in by_topic.items():
            taking = sorted(
                {b for place, row in rows.items() for b in row}
                - {b for place in rows for b in self.view.replicas[place]}
            )
            self.told.append(f"{topic}: {len(rows)} partitions get replicas on brokers {taking}")
