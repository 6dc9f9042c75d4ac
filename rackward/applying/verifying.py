"""Reading back what a run has come to."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from placement_core import TopicPartition
from placement_core.moves import Move
from rackward.admin import ClusterState
from rackward.applying.cluster import MovableCluster
from rackward.applying.electing import led_by_others
from rackward.applying.outcome import Outcome
from rackward.applying.settings import Settings
from rackward.applying.timing import Timing
from rackward.applying.watching import listed
from rackward.plans.standing import Phase, phase_of


def verify(
    moves: Mapping[TopicPartition, Move],
    failed: Mapping[TopicPartition, str],
    not_led: Mapping[TopicPartition, str],
    cluster: MovableCluster,
    settings: Settings,
    timing: Timing,
    *,
    leaders: bool = True,
) -> Outcome:
    """What the cluster says now, given what is known to have ``failed`` or to be ``not_led``.

    Brokers may need a moment to hear of the last change, so what looks wrong is looked at again
    for a while. ``leaders`` says whether the first replica shall lead. Raises AdminError.
    """
    until = timing.now() + settings.settle
    topics = sorted({place.topic for place in moves})
    for pause in timing.pauses(settings.longest_pause):
        state, _ = cluster.look(topics)
        found = _outcome(moves, failed, not_led, state, cluster.throttle.left(topics), leaders)
        expected = found.failed.keys() == failed.keys() and found.not_led.keys() == not_led.keys()
        settled = expected and not found.behind and not found.throttle_left
        if settled or timing.now() >= until:
            break
        timing.sleep(pause)
    return found


def _outcome(
    moves: Mapping[TopicPartition, Move],
    failed: Mapping[TopicPartition, str],
    not_led: Mapping[TopicPartition, str],
    state: ClusterState,
    throttle_left: Collection[str],
    leaders: bool,
) -> Outcome:
    phases = {place: phase_of(move, state) for place, move in moves.items()}
    placed = {place: moves[place] for place, phase in phases.items() if phase is Phase.PLACED}
    faults = {
        place: failed.get(place) or _fault(phase, place, state)
        for place, phase in phases.items()
        if place not in placed
    }
    led_elsewhere = led_by_others(placed, state) if leaders else {}
    behind = {
        place: missing
        for place, move in placed.items()
        if (missing := tuple(b for b in move.after if b not in state.in_sync.get(place, ())))
    }
    return Outcome(
        placed=len(placed),
        failed=faults,
        under_way=tuple(p for p, phase in phases.items() if phase is Phase.UNDER_WAY),
        behind=behind,
        not_led={
            place: not_led.get(place, f"led by broker {leader}, not {moves[place].after[0]}")
            for place, leader in led_elsewhere.items()
        },
        throttle_left=tuple(throttle_left),
    )


def _fault(phase: Phase, place: TopicPartition, state: ClusterState) -> str:
    if phase is Phase.GONE:
        return "the topic was deleted"
    if phase is Phase.UNDER_WAY:
        return "still being copied"
    return f"on brokers {listed(state.view.replicas[place])}"
