"""A replication throttle for the duration of a run, removed however the run ends.

A throttle has one owner, the run that has set its marker. Another run, which is started beside it,
adds its replicas and leaves the rate alone. Whichever ends last removes the throttle.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

from placement_core import TopicPartition
from placement_core.cluster import Move
from rackward.admin import AdminError, ClusterState, RefusedError, UnauthorizedError
from rackward.reassignment.cluster import Throttle
from rackward.reassignment.progress import (
    BrokerThrottleFound,
    Clock,
    EventHandler,
    ThrottleNotRemoved,
    ThrottleRemoved,
    ThrottleSet,
    ThrottleShared,
)

REMOVE_TIMEOUT_SECONDS = 20.0
_RETRY_PAUSE_SECONDS = 0.2


@contextmanager
def throttled(
    throttle: Throttle,
    rate: int | None,
    state: ClusterState,
    in_progress: Collection[TopicPartition],
    others: Callable[[], Collection[TopicPartition]],
    emit: EventHandler,
    clock: Clock,
    *,
    take_over: bool = False,
) -> Iterator[None]:
    """Throttle replication to ``rate`` for the ``with`` block; None: this run needs no throttle.

    If another run has set a throttle, its rate applies. With ``take_over`` that run was killed:
    its throttle is taken over, or removed if ``rate`` is None. ``in_progress`` are the partitions
    that are being reassigned; ``others`` returns those of other runs, whose entries stay.
    The throttle is removed at the end of the block, also after an exception. A failure to remove
    it is emitted, not raised.
    """
    found = throttle.read().markers
    if rate is None:
        if found and take_over and throttle.remove(keep=others()):
            emit(ThrottleRemoved(leftover=True))
        yield
        return
    may_be_set = True
    try:
        if found and not take_over:
            emit(ThrottleShared(found[0].rate))
        else:
            if found:
                throttle.remove_replicas(keep=set(in_progress))
            try:
                throttle.set_rate(rate)
            except (RefusedError, UnauthorizedError):
                may_be_set = False
                raise
            emit(ThrottleSet(rate))
        for broker, rates in throttle.broker_overrides(sorted(state.view.racks())).items():
            emit(BrokerThrottleFound(broker, rates.leader, rates.follower))
        yield
    finally:
        if may_be_set:
            try:
                remove_throttle(throttle, others, emit, clock)
            except BaseException:
                # A signal during the removal; the handler ignores further ones.
                remove_throttle(throttle, others, emit, clock)
                raise


def throttle_replicas(throttle: Throttle, rate: int | None, moves: Iterable[Move]) -> None:
    """Add the replicas of ``moves`` to the throttle. Raises AdminError.

    The rate that a run of ours has set is left alone. Sets it if there is none: another run that
    ended meanwhile may have removed it with its own.
    """
    copying = [move for move in moves if move.adding]
    if rate is None or not copying:
        return
    if not throttle.read().markers:
        throttle.set_rate(rate)
    throttle.add_replicas(copying)


def remove_throttle(
    throttle: Throttle,
    others: Callable[[], Collection[TopicPartition]],
    emit: EventHandler,
    clock: Clock,
) -> None:
    """Remove the throttle, retrying for a while; emit the result instead of raising AdminError.

    ``others`` returns the partitions that other runs are copying at that time. Their entries stay,
    and with them the rates.
    """
    deadline = clock.now() + REMOVE_TIMEOUT_SECONDS
    removed = False
    while True:
        try:
            keep = others()
            if not throttle.remove(keep):
                break
            # Repeat until no broker reports any of it.
            removed = True
            if keep or clock.now() >= deadline:
                break
        except AdminError as error:
            if clock.now() >= deadline or isinstance(error, UnauthorizedError):
                emit(ThrottleNotRemoved(str(error)))
                return
        clock.sleep(_RETRY_PAUSE_SECONDS)
    if removed:
        emit(ThrottleRemoved())
