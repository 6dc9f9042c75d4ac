"""Carry moves out on a cluster: batch by batch, watched, throttled, verified.

One loop with all its I/O behind MovableCluster; what it decides it asks of
:mod:`~rackward.reassignment.progress`. Whatever goes wrong with one partition is told and the rest
goes on. The cluster carries the state: a run that ends anywhere is taken up by the next.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from placement_core import TopicPartition
from placement_core.cluster import Move
from placement_core.reassignment import Batch, batches
from rackward.admin import AdminError, ClusterState
from rackward.reassignment.cluster import MovableCluster
from rackward.reassignment.events import (
    BatchBegun,
    Begun,
    Elected,
    Failed,
    LeftUnderWay,
    Outcome,
    Progressed,
    Tell,
    Trouble,
    Waiting,
)
from rackward.reassignment.progress import (
    Look,
    Meter,
    Patience,
    Settings,
    Timing,
    listed,
    waits_for,
)
from rackward.reassignment.status import Phase, Standing, phase_of
from rackward.reassignment.throttle import cover, throttled

# ---- See to it that the first replica of each partition leads.


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


# ---- Reading back what a run has come to.


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


Moves = Mapping[TopicPartition, Move]

_AHEAD = tuple(phase for phase in Phase if phase is not Phase.PLACED)


class Engine:
    """One run. ``sizes`` are bytes per partition on its leader, as far as they are known."""

    def __init__(
        self,
        moves: Iterable[Move],
        sizes: Mapping[TopicPartition, int],
        cluster: MovableCluster,
        settings: Settings,
        tell: Tell,
        timing: Timing | None = None,
    ) -> None:
        self._moves: Moves = {move.partition: move for move in moves}
        self._topics = sorted({place.topic for place in self._moves})
        self._sizes = sizes
        self._cluster = cluster
        self._settings = settings
        self._tell = tell
        self._timing = timing or Timing()
        self._meter = Meter.of(self._moves.values(), sizes)
        self._failed: dict[TopicPartition, str] = {}
        self._not_led: dict[TopicPartition, str] = {}
        self._under_way: set[TopicPartition] = set()
        self._number, self._batches = 0, 0
        self._gave_up = False

    def run(self) -> Outcome:
        """Carry it all out. Raises AdminError where the cluster cannot be asked for too long.

        Whatever ends it, the throttle is lifted, and what is still under way is told.
        """
        state, ongoing = self._cluster.look(self._topics)
        standing = Standing.of(self._moves.values(), state, ongoing)
        of = {phase: self._in(standing, phase) for phase in Phase}
        self._meter.place(of[Phase.PLACED])
        self._under_way = set(of[Phase.UNDER_WAY])
        to_do = [p for phase in _AHEAD if phase is not Phase.UNDER_WAY for p in of[phase]]
        planned = self._planned(to_do)
        self._batches = len(planned) + bool(self._under_way)
        self._tell(
            Begun(
                to_do=len(to_do),
                under_way=len(self._under_way),
                placed=len(of[Phase.PLACED]),
                batches=self._batches,
                bytes=_bytes_of(planned),
            )
        )
        outstanding = (self._moves[place] for phase in _AHEAD for place in of[phase])
        copying = any(move.adding for move in outstanding)
        try:
            with throttled(
                self._cluster.throttle,
                self._settings.throttle if copying else None,
                state,
                ongoing,
                self._moves,
                self._tell,
                self._timing,
            ):
                self._all(of[Phase.PLACED], of[Phase.UNDER_WAY], planned)
        except BaseException:
            if self._under_way:
                self._tell(LeftUnderWay(len(self._under_way), "the run was broken off"))
            raise
        return verify(
            self._moves, self._failed, self._not_led, self._cluster, self._settings, self._timing
        )

    def _all(
        self,
        placed: Sequence[TopicPartition],
        under_way: Sequence[TopicPartition],
        planned: Sequence[Batch],
    ) -> None:
        self._elect(placed)
        if under_way:
            self._batch(Batch(tuple(self._moves[place] for place in under_way), None))
        for number, batch in enumerate(planned):
            if self._gave_up:
                left = [move for each in planned[number:] for move in each.moves]
                self._fail({m.partition: "not begun, since nothing went on" for m in left})
                break
            self._batch(batch)
        if self._under_way and not self._gave_up:
            # What waits for brokers that are down: everything else is done, so wait for these.
            self._watch(sorted(self._under_way), to_the_end=True)
            self._elect(sorted(self._moves.keys() - self._failed.keys()))
        if self._under_way:
            self._tell(LeftUnderWay(len(self._under_way), self._why()))

    def _batch(self, batch: Batch) -> None:
        """Hand a batch to the controller and see it through, but for what waits for brokers."""
        self._number += 1
        moves = {move.partition: move for move in batch.moves}
        state, _ = self._cluster.look(sorted({place.topic for place in moves}))
        ready = self._ready(moves, state)
        cover(self._cluster.throttle, self._settings.throttle, ready.values())
        asked = {
            place: move
            for place, move in ready.items()
            if phase_of(move, state) in (Phase.TO_DO, Phase.DIVERTED)
        }
        # A target is never replaced while it is being worked on: see admin.reassignments.
        diverted = [p for p, move in asked.items() if phase_of(move, state) is Phase.DIVERTED]
        refused = dict(self._cluster.reassign(dict.fromkeys(diverted))) if diverted else {}
        asked = {place: move for place, move in asked.items() if place not in refused}
        self._under_way |= asked.keys()
        if asked:
            refused |= self._cluster.reassign({p: move.after for p, move in asked.items()})
        self._under_way -= refused.keys()
        self._fail({place: f"the controller refused: {error}" for place, error in refused.items()})
        self._tell(
            BatchBegun(self._number, self._batches, len(batch.moves), batch.copies, batch.bytes)
        )
        going = [place for place in ready if place not in refused]
        try:
            # Once more: a run that ended since may have looked before there was anything to keep.
            cover(self._cluster.throttle, self._settings.throttle, (ready[p] for p in going))
        except AdminError as error:
            self._tell(Trouble(str(error)))
        self._watch(going, to_the_end=False)
        self._elect([p for p in going if p not in self._failed and p not in self._under_way])
        if self._settings.throttle is not None:
            self._cluster.throttle.uncover(
                sorted({place.topic for place in moves}), keep=self._under_way
            )

    def _ready(self, moves: Moves, state: ClusterState) -> dict[TopicPartition, Move]:
        """The moves that can be handed over or are under way; the others are told of."""
        live = state.view.racks()
        ready: dict[TopicPartition, Move] = {}
        faults: dict[TopicPartition, str] = {}
        for place, move in moves.items():
            phase = phase_of(move, state)
            if phase is Phase.GONE:
                faults[place] = "the topic was deleted"
            elif phase is Phase.ELSEWHERE:
                now = listed(state.view.replicas[place])
                faults[place] = f"somebody else moved it to brokers {now}"
            elif phase is Phase.DIVERTED and not self._settings.additional:
                target = listed(state.ongoing[place].target)
                faults[place] = f"somebody else reassigned it to brokers {target}"
            elif phase is Phase.TO_DO and (away := waits_for(move, state, live)):
                faults[place] = f"not begun, since {_down(away)}"
            else:
                ready[place] = move
        self._fail(faults)
        return ready

    def _watch(self, places: Iterable[TopicPartition], *, to_the_end: bool) -> None:
        """Look until all have arrived or failed; ``to_the_end`` also what waits for brokers."""
        left = {place: self._moves[place] for place in places}
        patience = Patience(self._settings.patience, self._settings.settle, self._timing.now())
        troubled: str | None = None
        waiting: Mapping[TopicPartition, tuple[int, ...]] = {}
        for pause in self._timing.pauses(self._settings.longest_pause):
            try:
                state, _ = self._cluster.look(sorted({place.topic for place in left}))
            except AdminError as error:
                if troubled is None:
                    self._tell(Trouble(troubled := str(error)))
                if patience.over(self._timing.now()):
                    raise
                self._timing.sleep(pause)
                continue
            troubled, now = None, self._timing.now()
            look = Look.at(left.values(), state)
            adrift = patience.given_up(now, look.adrift)
            self._arrived(look.placed)
            self._fail(look.lost)
            self._fail({p: _stranded(left[p], state) for p in adrift})
            for place in {*look.placed, *look.lost, *adrift}:
                del left[place]
            if look.stuck and look.stuck != waiting:
                away = sorted({broker for each in look.stuck.values() for broker in each})
                self._tell(Waiting(len(look.stuck), tuple(away)))
            waiting = look.stuck
            self._measure(left, state)
            progress = self._meter.now(now)
            self._tell(Progressed(self._number, self._batches, progress))
            patience.moved(now, progress.placed, progress.copied)
            if not left or (not to_the_end and left.keys() == look.stuck.keys()):
                return
            if patience.over(now):
                self._gave_up = True
                why = f"no progress for {self._settings.patience:g} s"
                self._fail(
                    {
                        p: f"{_down(look.stuck[p])}; it waits for that" if p in look.stuck else why
                        for p in left
                    },
                    still_under_way=True,
                )
                return
            self._timing.sleep(pause)

    def _measure(self, left: Moves, state: ClusterState) -> None:
        copying = [move for move in left.values() if move.adding]
        live = state.view.racks().keys()
        brokers = {broker for move in copying for broker in move.adding}
        leaders = (state.view.leaders.get(move.partition) for move in copying)
        brokers.update(leader for leader in leaders if leader is not None)
        sizes = self._cluster.sizes(sorted(brokers & live), [move.partition for move in copying])
        self._meter.see(copying, sizes, state)

    def _arrived(self, places: Iterable[TopicPartition]) -> None:
        self._meter.place(places)
        self._under_way.difference_update(places)

    def _fail(self, faults: Mapping[TopicPartition, str], still_under_way: bool = False) -> None:
        for place, reason in sorted(faults.items()):
            self._failed[place] = reason
            self._tell(Failed(place, reason))
            if not still_under_way:
                self._under_way.discard(place)

    def _elect(self, places: Iterable[TopicPartition]) -> None:
        moves = {place: self._moves[place] for place in places}
        if moves:
            self._not_led.update(
                elect(moves, self._cluster, self._settings, self._tell, self._timing)
            )

    def _planned(self, places: Sequence[TopicPartition]) -> tuple[Batch, ...]:
        return batches(
            [self._moves[place] for place in places],
            most_partitions=self._settings.most_partitions,
            most_bytes=self._settings.most_bytes,
            sizes=self._sizes,
        )

    def _in(self, standing: Standing, phase: Phase) -> list[TopicPartition]:
        return sorted(place for place, found in standing.phases.items() if found is phase)

    def _why(self) -> str:
        return (
            f"no progress for {self._settings.patience:g} s"
            if self._gave_up
            else "brokers are down"
        )


def _bytes_of(planned: Iterable[Batch]) -> int | None:
    sizes = [batch.bytes for batch in planned]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _down(brokers: Sequence[int]) -> str:
    """What is wrong with brokers that are waited for."""
    many = len(brokers) > 1
    return f"broker{'s' if many else ''} {listed(brokers)} {'are' if many else 'is'} down"


def _stranded(move: Move, state: ClusterState) -> str:
    now = listed(state.view.replicas.get(move.partition, ()))
    return f"somebody else cancelled its reassignment: it is on brokers {now}"
