"""The compacted topic of intents: one partition, so that its reader is one."""

from __future__ import annotations

import logging
from dataclasses import replace

from placement_core import PlacementSpec, TopicPartition
from placement_core.placeholders import without_placeholders
from placement_core.placers import MultiLevelPlacer, UnderReplicatedPlacer, place
from rackward.admin import AdminConnection, AdminError, ClusterState, read_state
from rackward.admin.configs import read_topic_configs
from rackward.admin.topics import NewPartitions, await_layout, make_partitions
from rackward.intents.model import Intent, layout_digest

INTENTS_TOPIC = "_rackward_intents"
CONTROLLERS = "rackward-controller"
"""The consumer group whose one member with a partition keeps the intents."""
REPLICAS = 3
POLICY = "cleanup.policy"

log = logging.getLogger("rackward.intents")


def ensure_topic(admin: AdminConnection, state: ClusterState) -> Intent | None:
    """Make the topic where ``state`` (all topics, or this one) does not have it.

    It gets three replicas, or as many as there are live brokers: then the intent that it shall
    have three is returned, to be written to it. Somebody else may make it at the same time.

    Raises AdminError where it cannot be made, or is not compacted: intents would be lost then.
    """
    if INTENTS_TOPIC in state.topic_ids:
        _check_compacted(admin)
        return None
    # Racks or no racks, and some brokers without: this one is to be had anyway.
    view = replace(state.view, replicas={})
    ignoring = any(broker.rack is None for broker in view.brokers)
    spec = PlacementSpec(1, REPLICAS, topic=INTENTS_TOPIC, ignore_racks=ignoring)
    rows = place(spec, view, UnderReplicatedPlacer(MultiLevelPlacer(seed=0)))
    held = without_placeholders(rows[0])
    wanted = NewPartitions(
        INTENTS_TOPIC,
        rows=(held,),
        configs={
            POLICY: "compact",
            # As writable as any topic that is made with placeholders may be.
            "min.insync.replicas": "1",
            # Small segments, so that what is over is soon gone.
            "segment.bytes": str(16 << 20),
        },
    )
    if refused := make_partitions(admin, [wanted]):
        raise next(iter(refused.values()))
    # Somebody else's layout is as good.
    await_layout(admin, [wanted])
    made = read_state(admin, [INTENTS_TOPIC], ongoing=False)
    if INTENTS_TOPIC not in made.topic_ids:
        raise AdminError(f"topic {INTENTS_TOPIC} was made, and no broker knows of it: try again")
    _check_compacted(admin)
    row = made.view.replicas[TopicPartition(INTENTS_TOPIC, 0)]
    log.info("made topic %s on brokers %s", INTENTS_TOPIC, list(row))
    if len(row) >= REPLICAS:
        return None
    return Intent(
        id="itself",
        topic=INTENTS_TOPIC,
        topic_id=made.topic_ids[INTENTS_TOPIC],
        replication_factor=REPLICAS,
        open=(0,),
        layout=layout_digest({0: row}),
    )


def _check_compacted(admin: AdminConnection) -> None:
    found = read_topic_configs(admin, [INTENTS_TOPIC], [POLICY]).get(INTENTS_TOPIC, {})
    policies = {each.strip() for each in found.get(POLICY, "compact").split(",")}
    if policies != {"compact"}:
        raise AdminError(
            f"topic {INTENTS_TOPIC} has {POLICY}={found[POLICY]}, so that intents would be lost: "
            f"set it to compact"
        )
