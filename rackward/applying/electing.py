"""See to it that the first replica of each partition leads."""

from __future__ import annotations

from collections.abc import Mapping

from placement_core import TopicPartition
from placement_core.moves import Move
from rackward.admin import AdminError, ClusterState
from rackward.applying.cluster import MovableCluster
from rackward.applying.events import Elected, Tell
from rackward.applying.settings import Settings
from rackward.applying.timing import Timing


def elect(
    moves: Mapping[TopicPartition, Move],
    cluster: MovableCluster,
    settings: Settings,
    tell: Tell,
    timing: Timing,
) -> dict[TopicPartition, str]:
    """Elect until every partition is led by the first of its new replicas.

    It is asked for again for a while: a replica that has just come back is refused until it is
    in sync. Returns those that are led by others still, and why. Partitions that are gone
    are passed over. Raises AdminError.
    """
    until = timing.now() + settings.settle
    topics = sorted({place.topic for place in moves})
    state, _ = cluster.look(topics)
    at_first = waiting = led_by_others(moves, state)
    refused: Mapping[TopicPartition, AdminError] = {}
    for pause in timing.pauses(settings.longest_pause):
        if not waiting or timing.now() >= until:
            break
        refused = cluster.elect(sorted(waiting))
        state, _ = cluster.look(topics)
        waiting = led_by_others(moves, state)
        if waiting:
            timing.sleep(pause)
    if elected := len(at_first) - len(waiting):
        tell(Elected(elected))
    return {
        place: f"{_led(leader)}, not by broker {moves[place].after[0]}"
        + (f" ({refused[place]})" if place in refused else "")
        for place, leader in waiting.items()
    }


def led_by_others(
    moves: Mapping[TopicPartition, Move], state: ClusterState
) -> dict[TopicPartition, int | None]:
    """Partition to present leader, where that is not the first replica that it shall have."""
    return {
        place: leader
        for place, move in moves.items()
        if place in state.view.replicas
        and (leader := state.view.leaders.get(place)) != move.after[0]
    }


def _led(leader: int | None) -> str:
    return "led by nobody" if leader is None else f"led by broker {leader}"
