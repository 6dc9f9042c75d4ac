"""Intents around the making of topics with placeholders: written before, confirmed after."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from rich.console import Console

from placement_core import InvalidOptionError, TopicPartition
from placement_core.filling import Wanted, held_by
from rackward.admin import AdminConnection, ClusterState, UnauthorizedError, read_state
from rackward.admin.configs import (
    MIN_IN_SYNC,
    default_min_in_sync,
    min_in_sync,
    read_broker_configs,
    read_topic_configs,
)
from rackward.admin.topics import NewPartitions
from rackward.intents import (
    INTENTS_TOPIC,
    Intent,
    IntentWriter,
    ensure_topic,
    layout_digest,
    read_intents,
    wanted_of,
)
from rackward.intents.topic import CONTROLLERS
from rackward.readers import find_groups
from rackward.units import count_text

_SHAPE = ("num.partitions", "default.replication.factor")


class Promises:
    """The intents of the topics that are made now, in a cluster that ``properties`` describe.

    Written before the topics are made: whatever breaks off in between, the controller sees what
    became of them. Without intents nothing is written, nor is their topic made.
    """

    def __init__(self, properties: Mapping[str, object], intents: Sequence[Intent]) -> None:
        self._properties, self._intents = properties, tuple(intents)
        self._writer: IntentWriter | None = None

    def record(self, admin: AdminConnection) -> None:
        """Write them. Raises AdminError; nothing is made then."""
        if not self._intents:
            return
        itself = ensure_topic(admin, read_state(admin, [INTENTS_TOPIC], ongoing=False))
        self._writer = IntentWriter(self._properties, admin.timeout)
        self._writer.write([*self._intents, *([itself] if itself is not None else [])])

    def settle(self, admin: AdminConnection, refused: Collection[str]) -> None:
        """Say which topics they are about, now that they have been made, and take back those of
        topics that the cluster did not make. Raises AdminError."""
        if self._writer is None:
            return
        over = [each.key for each in self._intents if each.topic in refused]
        made = [each for each in self._intents if each.topic not in refused]
        ids: Mapping[str, str | None] = {}
        if made:
            ids = read_state(admin, [each.topic for each in made], ongoing=False).topic_ids
        known = [replace(each, topic_id=ids[each.topic]) for each in made if each.topic in ids]
        self._writer.write(known, over)

    def tell(self, admin: AdminConnection, console: Console) -> None:
        """Say what was promised, and who is to keep it."""
        if not self._intents:
            return
        partitions = sum(len(each.open) for each in self._intents)
        console.print(
            f"{count_text(partitions, 'partition')} will get their missing replicas when brokers "
            "join: rackward controller sees to it."
        )
        live = read_state(admin, [], ongoing=False).view.racks()
        found = find_groups(admin, live, {CONTROLLERS}).get(CONTROLLERS)
        if found is None or not found.members:
            console.print(
                "No rackward controller runs for this cluster now: start one.", style="yellow"
            )

    def close(self) -> None:
        """Close the connections; again: nothing."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


def intents_of(wanted: Sequence[NewPartitions], state: ClusterState) -> tuple[Intent, ...]:
    """What is to be kept about partitions that are made with placeholders; `state` before."""
    down = frozenset(broker.id for broker in state.fenced)
    live = state.view.racks()
    made = []
    for each in wanted:
        factor = len(each.rows[0])
        stand_ins = down.intersection(broker for row in each.asked for broker in row)
        want = Wanted(factor, stand_ins)
        rows = {number: row for (_, number), row in sorted(each.layout.items())}
        short = {n: row for n, row in rows.items() if len(held_by(row, want, live)) < factor}
        if short:
            made.append(
                Intent(
                    id=secrets.token_hex(8),
                    topic=each.topic,
                    topic_id=state.topic_ids.get(each.topic),
                    replication_factor=factor,
                    open=tuple(sorted(short)),
                    layout=layout_digest(short),
                    stand_ins=stand_ins,
                )
            )
    return tuple(made)


def _wanted_now(
    properties: Mapping[str, object], state: ClusterState, timeout: float
) -> dict[TopicPartition, Wanted]:
    found = wanted_of(
        each
        for each in read_intents(properties, timeout).intents.values()
        if state.topic_ids.get(each.topic) == each.topic_id
    )
    return {place: want for place, want in found.items() if place in state.view.replicas}


def wanted_of_cluster(
    admin: AdminConnection, properties: Mapping[str, object], state: ClusterState
) -> tuple[dict[TopicPartition, Wanted], str | None]:
    """What the intents of a cluster want, for the topics in ``state`` (which need not have the
    intents' own); nothing where this user may not read them, and why. Raises AdminError."""
    try:
        # Kafka does not tell who may not know it whether a topic is there.
        if not _has_intents(admin, state):
            return {}, None
        return _wanted_now(properties, state, admin.timeout), None
    except UnauthorizedError as error:
        return {}, str(error)


def _has_intents(admin: AdminConnection, state: ClusterState) -> bool:
    """Whether the cluster has a topic of intents. Raises AdminError."""
    if INTENTS_TOPIC in state.topic_ids:
        return True
    return INTENTS_TOPIC in read_state(admin, [INTENTS_TOPIC], ongoing=False).topic_ids


def cluster_shape(admin: AdminConnection, state: ClusterState) -> tuple[int, int]:
    """The partitions and the replication factor of topics that say nothing, for a cluster that
    has too few brokers to tell by trying. Raises AdminError."""
    found = read_broker_configs(admin, _some_broker(state), _SHAPE)
    return int(found.get(_SHAPE[0], "1")), int(found.get(_SHAPE[1], "1"))


def least_of_new(admin: AdminConnection, state: ClusterState, configs: Mapping[str, str]) -> int:
    """min.insync.replicas of a new topic: its own, or else the cluster's. Raises AdminError."""
    own = configs.get(MIN_IN_SYNC)
    if own is None:
        return default_min_in_sync(admin, _some_broker(state))
    if not own.isdigit() or int(own) < 1:
        raise InvalidOptionError(f"{MIN_IN_SYNC} is {own!r}: give a whole number, 1 or more")
    return int(own)


def least_of_old(admin: AdminConnection, topics: Collection[str]) -> dict[str, int]:
    """min.insync.replicas of topics that there are. Raises AdminError."""
    return min_in_sync(read_topic_configs(admin, topics, [MIN_IN_SYNC]))


def _some_broker(state: ClusterState) -> int:
    return min(state.view.racks())
