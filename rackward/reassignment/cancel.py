"""Taking back reassignments that are under way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from placement_core import TopicPartition
from placement_core.cluster import Move
from rackward.admin import ClusterState, Ongoing
from rackward.reassignment.cluster import MovableCluster
from rackward.reassignment.events import Cancelled, Failed, Outcome, Tell
from rackward.reassignment.executor import verify
from rackward.reassignment.progress import Settings, Timing
from rackward.reassignment.status import leads_to
from rackward.reassignment.throttle import lift


@dataclass(frozen=True, slots=True)
class Cancellation:
    """What is to be taken back.

    ``moves`` lead from where partitions are being reassigned to where they were before;
    ``under_way`` are those that the controller is working on. The others were cancelled before,
    by a run that was broken off, and have their replicas in the wrong order still. ``others``
    are under way and are left alone.
    """

    moves: Mapping[TopicPartition, Move]
    under_way: frozenset[TopicPartition]
    others: frozenset[TopicPartition]

    @classmethod
    def of_all(cls, ongoing: Mapping[TopicPartition, Ongoing], state: ClusterState) -> Cancellation:
        """Everything that is under way.

        Which order the replicas had is not known to the cluster any more: the present leader
        comes first, the rest as Kafka leaves them.
        """
        moves = {}
        for place, each in ongoing.items():
            before = [broker for broker in each.replicas if broker not in each.adding]
            leader = state.view.leaders.get(place)
            before.sort(key=lambda broker: broker != leader)
            if before:
                moves[place] = Move(place, each.target, tuple(before))
        return cls(moves, frozenset(ongoing), frozenset())

    @classmethod
    def of_plan(
        cls,
        moves: Iterable[Move],
        state: ClusterState,
        ongoing: Mapping[TopicPartition, Ongoing],
    ) -> Cancellation:
        """What a plan's ``moves`` have under way, and what they left in another order."""
        back: dict[TopicPartition, Move] = {}
        under_way = set()
        for move in moves:
            place, now = move.partition, state.view.replicas.get(move.partition)
            each = ongoing.get(place)
            if each is not None and (leads_to(each, move.after) or _torn(each, move)):
                under_way.add(place)
                back[place] = move.reversed()
            elif (
                each is None
                and now not in (None, move.before, move.after)
                and (set(now or ()) == set(move.before))
            ):
                back[place] = move.reversed()
        return cls(back, frozenset(under_way), frozenset(ongoing.keys() - under_way))


def cancel(
    wanted: Cancellation,
    cluster: MovableCluster,
    settings: Settings,
    tell: Tell,
    timing: Timing | None = None,
) -> Outcome:
    """Take it back, lift the throttle, and read back what has become of it.

    Raises AdminError where the cluster cannot be asked.
    """
    timing = timing or Timing()
    refused = dict(cluster.reassign(dict.fromkeys(wanted.under_way))) if wanted.under_way else {}
    for place, error in sorted(refused.items()):
        tell(Failed(place, str(error)))
    if gone := len(wanted.under_way - refused.keys()):
        tell(Cancelled(gone))
    # Cancelling leaves the order of the target: ask for the former one, which copies nothing.
    rows = {place: move.after for place, move in wanted.moves.items() if place not in refused}
    disordered = _disordered(rows, cluster, settings, timing)
    for place, error in sorted(cluster.reassign(disordered).items()) if disordered else ():
        refused[place] = error
        tell(Failed(place, str(error)))
    lift(cluster.throttle, wanted.others, tell, timing)
    return verify(
        wanted.moves,
        {place: str(error) for place, error in refused.items() if place in wanted.moves},
        {},
        cluster,
        settings,
        timing,
        leaders=False,
    )


def _disordered(
    rows: Mapping[TopicPartition, tuple[int, ...]],
    cluster: MovableCluster,
    settings: Settings,
    timing: Timing,
) -> dict[TopicPartition, tuple[int, ...]]:
    """Of ``rows``, those that the cluster has in another order, once nothing is under way."""
    until = timing.now() + settings.settle
    topics = sorted({place.topic for place in rows})
    for pause in timing.pauses(settings.longest_pause):
        state, ongoing = cluster.look(topics)
        now = {place: state.view.replicas.get(place) for place in rows}
        settled = not rows.keys() & ongoing.keys() and all(
            found is None or set(found) == set(rows[place]) for place, found in now.items()
        )
        if settled or timing.now() >= until:
            break
        timing.sleep(pause)
    return {
        place: row
        for place, row in rows.items()
        if (found := now[place]) is not None and found != row and set(found) == set(row)
    }


def _torn(ongoing: Ongoing, move: Move) -> bool:
    """Whether it is a move of ours whose target was replaced: it would never arrive."""
    return bool(set(ongoing.adding) & set(ongoing.removing)) and set(ongoing.adding) <= set(
        move.adding
    )
