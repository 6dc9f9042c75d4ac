"""A replication throttle for the duration of a run, removed however the run ends."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
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
)

REMOVE_TIMEOUT_SECONDS = 20.0
_RETRY_PAUSE_SECONDS = 0.2


@contextmanager
def throttled(
    throttle: Throttle,
    rate: int | None,
    state: ClusterState,
    in_progress: Collection[TopicPartition],
    own: Collection[TopicPartition],
    emit: EventHandler,
    clock: Clock,
) -> Iterator[None]:
    """Throttle replication to ``rate`` for the ``with`` block; None: no throttle.

    A throttle that an earlier run left behind is taken over, or removed if ``rate`` is None.
    Entries of partitions that are ``in_progress`` and not ``own`` belong to another run and stay.
    The throttle is removed at the end of the block, also after an exception. A failure to remove
    it is emitted, not raised.
    """
    others = set(in_progress) - set(own)
    if rate is None:
        if throttle.remove(keep=others):
            emit(ThrottleRemoved(leftover=True))
        yield
        return
    may_be_set = True
    try:
        if throttle.read().markers:
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

    Sets the rate again if it is gone: another run that ended meanwhile removed it with its own.
    """
    copying = [move for move in moves if move.adding]
    if rate is None or not copying:
        return
    if not throttle.read().markers:
        throttle.set_rate(rate)
    throttle.add_replicas(copying)


def remove_throttle(
    throttle: Throttle, keep: Collection[TopicPartition], emit: EventHandler, clock: Clock
) -> None:
    """Remove the throttle, retrying for a while; emit the result instead of raising AdminError.

    The entries of the partitions in ``keep`` stay, and with them the rates.
    """
    deadline = clock.now() + REMOVE_TIMEOUT_SECONDS
    removed = False
    while True:
        try:
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
