"""Create topics and partitions, and record the replicas that brokers are missing for."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace

from placement_core import InvalidOptionError, TopicPartition
from placement_core.placers.under_replicated import ReplicationTarget, counted_replicas
from rackward.groups.readers import find_groups
from rackward.kafka import AdminConnection, AdminError, ClusterState, UnauthorizedError, read_state
from rackward.kafka.configs import (
    MIN_INSYNC_REPLICAS,
    read_broker_configs,
    read_default_min_isr,
)
from rackward.kafka.topics import NewPartitions, create_partitions, wait_for_layout
from rackward.topics.pending_replicas import (
    CONTROLLER_GROUP,
    MAX_REPLICATION_FACTOR,
    PENDING_REPLICAS_TOPIC,
    PendingReplicas,
    PendingReplicasWriter,
    ensure_topic,
    layout_digest,
    read_pending_replicas,
    replication_targets,
)
from rackward.topics.planner import TopicsPlan

_SHAPE_CONFIGS = ("num.partitions", "default.replication.factor")


def pending_replicas(
    new: Sequence[NewPartitions], state: ClusterState
) -> tuple[PendingReplicas, ...]:
    """Return the pending replicas of partitions with placeholders; ``state`` is before creation.

    Raises InvalidOptionError if the controller would not add that many.
    """
    down = frozenset(broker.id for broker in state.fenced)
    live = state.view.racks()
    pending = []
    for each in new:
        factor = len(each.replicas[0])
        offline = down.intersection(broker for row in each.requested for broker in row)
        target = ReplicationTarget(factor, offline)
        short = {
            number: row
            for (_, number), row in sorted(each.layout.items())
            if len(counted_replicas(row, target, live)) < factor
        }
        if short and factor > MAX_REPLICATION_FACTOR:
            raise InvalidOptionError(
                f"{each.topic}: replication factor {factor}: the controller adds missing replicas "
                f"up to {MAX_REPLICATION_FACTOR}: wait until enough brokers are live"
            )
        if short:
            pending.append(
                PendingReplicas(
                    id=secrets.token_hex(8),
                    topic=each.topic,
                    topic_id=state.topic_ids.get(each.topic),
                    replication_factor=factor,
                    partitions=tuple(sorted(short)),
                    layout=layout_digest(short),
                    offline_replicas=offline,
                )
            )
    return tuple(pending)


def read_replication_targets(
    admin: AdminConnection, properties: Mapping[str, object], state: ClusterState
) -> tuple[dict[TopicPartition, ReplicationTarget], str | None]:
    """Return the targets of partitions with pending replicas, for the topics in ``state``.

    If this user may not read them: no targets, and the reason. Raises AdminError.
    """
    try:
        topics = state.topic_ids
        if PENDING_REPLICAS_TOPIC not in topics:
            # For a topic that exists but may not be described, this raises UnauthorizedError.
            topics = read_state(admin, [PENDING_REPLICAS_TOPIC], reassignments=False).topic_ids
        if PENDING_REPLICAS_TOPIC not in topics:
            return {}, None
        records = read_pending_replicas(properties, admin.timeout).records.values()
    except UnauthorizedError as error:
        return {}, str(error)
    targets = replication_targets(
        each for each in records if state.topic_ids.get(each.topic) == each.topic_id
    )
    return {tp: target for tp, target in targets.items() if tp in state.view.replicas}, None


def read_cluster_shape(admin: AdminConnection, state: ClusterState) -> tuple[int, int]:
    """Return the brokers' defaults of the partition count and the replication factor.

    For a cluster with too few brokers to validate a creation with defaults. Raises AdminError.
    """
    configs = read_broker_configs(admin, _any_broker(state), _SHAPE_CONFIGS)
    return int(configs.get(_SHAPE_CONFIGS[0], "1")), int(configs.get(_SHAPE_CONFIGS[1], "1"))


def min_isr_of_new_topic(
    admin: AdminConnection, state: ClusterState, configs: Mapping[str, str]
) -> int:
    """Return min.insync.replicas of a new topic: of ``configs``, else the brokers' default.

    Raises InvalidOptionError and AdminError.
    """
    value = configs.get(MIN_INSYNC_REPLICAS)
    if value is None:
        return read_default_min_isr(admin, _any_broker(state))
    if not value.isdigit() or int(value) < 1:
        raise InvalidOptionError(
            f"{MIN_INSYNC_REPLICAS} is {value!r}: give a whole number, 1 or more"
        )
    return int(value)


def _any_broker(state: ClusterState) -> int:
    return min(state.view.racks())


def create_planned(
    admin: AdminConnection,
    plan: TopicsPlan,
    properties: Mapping[str, object],
    pending: Sequence[PendingReplicas],
) -> dict[str, str]:
    """Create the partitions of a plan, and compare the layout with it.

    ``pending`` replicas are recorded for the controller; without any, nothing is written. Returns
    the topics that are not as planned, with the reason. If the creation is interrupted after the
    request was sent, the error (or for a signal, stderr) contains that hint. Raises AdminError.
    """
    names = " ".join(new.topic for new in plan.new)
    hint = f"the request was sent and may take effect: see rackward topics describe {names}"
    with ExitStack() as stack:
        writer: PendingReplicasWriter | None = None
        if pending:
            own = ensure_topic(
                admin, read_state(admin, [PENDING_REPLICAS_TOPIC], reassignments=False)
            )
            writer = stack.enter_context(closing(PendingReplicasWriter(properties, admin.timeout)))
            # Before the creation, so that the controller sees them however it ends.
            writer.write([*pending, *([own] if own is not None else [])])
        try:
            refused = create_partitions(admin, plan.new)
            created = [new for new in plan.new if new.topic not in refused]
            differences = wait_for_layout(admin, created) if created else {}
            if writer is not None:
                confirm_pending_replicas(admin, writer, pending, refused.keys())
        except AdminError as error:
            raise AdminError(f"{error}; {hint}") from error
        except BaseException:
            sys.stderr.write(f"rackward: {hint}\n")
            raise
    return {**{name: str(error) for name, error in refused.items()}, **differences}


def confirm_pending_replicas(
    admin: AdminConnection,
    writer: PendingReplicasWriter,
    pending: Sequence[PendingReplicas],
    refused: Collection[str],
) -> None:
    """Add the ids of created topics to what was recorded, and delete the records of refused ones.

    Raises AdminError.
    """
    created = [record for record in pending if record.topic not in refused]
    ids: Mapping[str, str | None] = {}
    if created:
        topics = [record.topic for record in created]
        ids = read_state(admin, topics, reassignments=False).topic_ids
    writer.write(
        [replace(record, topic_id=ids[record.topic]) for record in created if record.topic in ids],
        [record.key for record in pending if record.topic in refused],
    )


def controller_is_running(admin: AdminConnection, state: ClusterState) -> bool:
    """Return whether the group of rackward controller has members. Raises AdminError."""
    brokers = state.view.racks()
    group = find_groups(admin, brokers, {CONTROLLER_GROUP}).get(CONTROLLER_GROUP)
    return group is not None and bool(group.members)
