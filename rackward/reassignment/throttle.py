"""A throttle for as long as replicas are moved, and not longer, however that ends."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from placement_core import TopicPartition
from placement_core.cluster import Move
from rackward.admin import AdminError, ClusterState, RefusedError, UnauthorizedError
from rackward.reassignment.cluster import Throttle
from rackward.reassignment.events import OwnThrottle, Tell, Throttled, ThrottleLeft, ThrottleLifted
from rackward.reassignment.progress import Timing

LIFT_SECONDS = 20.0
_PAUSE_SECONDS = 0.2


@contextmanager
def throttled(
    throttle: Throttle,
    rate: int | None,
    state: ClusterState,
    under_way: Collection[TopicPartition],
    ours: Collection[TopicPartition],
    tell: Tell,
    timing: Timing,
) -> Iterator[None]:
    """Throttle to ``rate`` (None: not at all) for the ``with`` block.

    What an earlier run has left is taken over, or taken back where there is no rate; the
    entries of partitions that are ``under_way`` and not ``ours`` belong to another run. Leaving
    the block lifts the throttle whatever ends it; where that cannot be done it is told.
    """
    others = set(under_way) - set(ours)
    if rate is None:
        if throttle.lift(keep=others):
            tell(ThrottleLifted(leftover=True))
        yield
        return
    engaged = True
    try:
        if throttle.found().marks:
            throttle.uncover(keep=set(under_way))
        try:
            throttle.engage(rate)
        except (RefusedError, UnauthorizedError):
            engaged = False
            raise
        tell(Throttled(rate))
        for broker, own in throttle.own_rates(sorted(state.view.racks())).items():
            tell(OwnThrottle(broker, own.leader, own.follower))
        yield
    finally:
        if engaged:
            try:
                lift(throttle, others, tell, timing)
            except BaseException:
                # A signal that came while lifting; those after the first are held off.
                lift(throttle, others, tell, timing)
                raise


def cover(throttle: Throttle, rate: int | None, moves: Iterable[Move]) -> None:
    """List the replicas of ``moves``, and set the rate again where there is none: another run
    that ends between two batches takes it back with its own. Raises AdminError."""
    copying = [move for move in moves if move.adding]
    if rate is None or not copying:
        return
    if not throttle.found().marks:
        throttle.engage(rate)
    throttle.cover(copying)


def lift(throttle: Throttle, keep: Collection[TopicPartition], tell: Tell, timing: Timing) -> None:
    """Take the throttle back, trying for a while; tells how that went and raises no AdminError.

    The entries of ``keep`` stay, and the rates with them.
    """
    until = timing.now() + LIFT_SECONDS
    lifted = False
    while True:
        try:
            if not throttle.lift(keep):
                break
            # Done again until what brokers tell has no trace of it any more.
            lifted = True
            if keep or timing.now() >= until:
                break
        except AdminError as error:
            if timing.now() >= until or isinstance(error, UnauthorizedError):
                tell(ThrottleLeft(str(error)))
                return
        timing.sleep(_PAUSE_SECONDS)
    if lifted:
        tell(ThrottleLifted())
