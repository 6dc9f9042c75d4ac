"""What is wrong with topics and partitions, or under way: pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from placement_core import TopicPartition
from placement_core.audit import Finding, Kind, audit
from placement_core.under_replication import Wanted
from rackward.admin import ClusterState


class Note(Enum):
    """What there is to say of a partition, the worst first."""

    OFFLINE = "offline"
    BELOW_MIN_IN_SYNC = "below min in sync"
    UNDER_REPLICATED = "under-replicated"
    NOT_SPREAD = "not spread over racks"
    PLACEHOLDERS = "waiting for brokers"
    MOVING = "moving"
    NOT_PREFERRED = "leader not preferred"

    @property
    def unhealthy(self) -> bool:
        """Whether somebody should look at it."""
        return self not in (Note.MOVING, Note.NOT_PREFERRED)


_NOTE_OF = {
    Kind.OFFLINE: Note.OFFLINE,
    Kind.BELOW_MIN_IN_SYNC: Note.BELOW_MIN_IN_SYNC,
    Kind.UNDER_REPLICATED: Note.UNDER_REPLICATED,
    Kind.RACK_RULE: Note.NOT_SPREAD,
    Kind.PLACEHOLDERS: Note.PLACEHOLDERS,
    Kind.NOT_PREFERRED: Note.NOT_PREFERRED,
}
_ABOUT_BROKERS = (Kind.RACK_UNKNOWN, Kind.ONE_RACK)


@dataclass(frozen=True, slots=True)
class Health:
    """``notes``: per partition, the worst first, only where there are any. ``findings``: those
    about the partitions' state and the brokers' racks, in words."""

    notes: Mapping[TopicPartition, tuple[Note, ...]]
    findings: tuple[Finding, ...]

    def of_topic(self, topic: str) -> Counter[Note]:
        """How many partitions of a topic have each note."""
        return Counter(
            note for place, found in self.notes.items() if place.topic == topic for note in found
        )

    def unhealthy(self) -> Iterator[TopicPartition]:
        """The partitions that somebody should look at."""
        return (place for place, found in self.notes.items() if any(n.unhealthy for n in found))


def health_of(
    state: ClusterState,
    min_in_sync: Mapping[str, int],
    wanted: Mapping[TopicPartition, Wanted] | None = None,
) -> Health:
    """The health of the topics in ``state``; ``min_in_sync`` is per topic, 1 where not said;
    ``wanted`` are partitions that have placeholders.

    A partition under reassignment is judged without the replicas that are still to come.
    """
    present = {
        place: tuple(b for b in each.replicas if b not in each.adding)
        for place, each in state.ongoing.items()
    }
    view = replace(state.view, replicas={**state.view.replicas, **present})
    # A view without any leader would be one that does not know them: all are offline then.
    silent = bool(view.replicas) and not view.leaders
    found = audit(view, in_sync=state.in_sync, min_in_sync=min_in_sync, wanted=wanted)
    noted: dict[TopicPartition, set[Note]] = {}
    for finding in found.findings:
        note = _NOTE_OF.get(finding.kind)
        for place in finding.partitions if note is not None else ():
            noted.setdefault(place, set()).add(note)  # type: ignore[arg-type]
    for place in state.ongoing:
        noted.setdefault(place, set()).add(Note.MOVING)
    if silent:
        for place in view.replicas:
            noted.setdefault(place, set()).add(Note.OFFLINE)
    order = list(Note)
    return Health(
        notes={place: tuple(sorted(noted[place], key=order.index)) for place in sorted(noted)},
        findings=tuple(
            finding
            for finding in found.findings
            if finding.kind in _ABOUT_BROKERS or _NOTE_OF.get(finding.kind, Note.MOVING).unhealthy
        ),
    )


def chosen_topics(state: ClusterState, health: Health, *, unhealthy: bool) -> Collection[str]:
    """The topics to show: the unhealthy ones or all, those with the most to say first."""
    worst: dict[str, int] = {}
    order = list(Note)
    for place, notes in health.notes.items():
        rank = order.index(notes[0])
        if notes[0].unhealthy:
            worst[place.topic] = min(rank, worst.get(place.topic, rank))
    names = worst if unhealthy else state.topics
    return sorted(names, key=lambda name: (worst.get(name, len(order)), name))
