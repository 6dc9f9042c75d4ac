"""Creating topics and adding partitions, each replica on a chosen broker; configurations.

A request may be sent twice if its first response was lost. So an error that a topic exists, or has
these partitions already, is ignored here: the layout that brokers return afterwards decides whether
the request succeeded, see `wait_for_layout`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from placement_core import ReplicaLists, TopicPartition
from rackward.admin.client import AdminConnection
from rackward.admin.errors import (
    INVALID_PARTITIONS,
    TOPIC_EXISTS,
    UNKNOWN_TOPIC,
    AdminError,
    from_code,
)
from rackward.admin.metadata import ClusterState, batches, read_state
from rackward.units import Deadline

_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """Partitions to create: all of a new topic, or (``first_partition`` > 0) more of an old one.

    ``replicas`` are their replica lists in order of their numbers, the preferred leader first;
    they may end in placeholders. ``configs`` are settings of a new topic. ``without_placeholders``
    are the lists to send to the cluster where they differ from ``replicas``: Kafka accepts no
    placeholders, and no lists that are shorter than those of the topic's other partitions.
    """

    topic: str
    replicas: ReplicaLists
    first_partition: int = 0
    configs: Mapping[str, str] = field(default_factory=dict)
    without_placeholders: ReplicaLists | None = None

    @property
    def requested(self) -> ReplicaLists:
        """The replica lists that are sent to the cluster."""
        return self.replicas if self.without_placeholders is None else self.without_placeholders

    @property
    def layout(self) -> dict[TopicPartition, tuple[int, ...]]:
        """Partition to its requested replicas."""
        return {
            TopicPartition(self.topic, partition): row
            for partition, row in enumerate(self.requested, self.first_partition)
        }


def create_partitions(
    admin: AdminConnection, new: Sequence[NewPartitions], *, validate_only: bool = False
) -> dict[str, AdminError]:
    """Create all of them through the controller; return topic to error for the refused ones.

    ``new`` are either all new topics or all more partitions of old ones. With ``validate_only``
    the controller checks them and creates nothing. Brokers may need a moment to return the new
    partitions, and a topic that exists may have been created by this very call: see
    `wait_for_layout`. Raises AdminError if the controller does not respond.
    """
    deadline = admin.deadline()
    names = ", ".join(each.topic for each in new[:3]) + (", ..." if len(new) > 3 else "")
    if new[0].first_partition:
        request = _create_partitions_request(new, validate_only, deadline)
        response = admin.send_to_controller(f"adding partitions to {names}", request, deadline)
        results, operation = response.results, "adding partitions to {}"
        done_before = INVALID_PARTITIONS
    else:
        request = _create_topics_request(new, validate_only, deadline)
        response = admin.send_to_controller(f"creating {names}", request, deadline)
        results, operation = response.topics, "creating topic {}"
        done_before = TOPIC_EXISTS
    return {
        each.name: from_code(
            operation.format(each.name), request.name, each.error_code, each.error_message
        )
        for each in results
        if each.error_code and (validate_only or each.error_code != done_before)
    }


def read_topic_defaults(
    admin: AdminConnection, topic: str, configs: Mapping[str, str]
) -> tuple[int, int] | None:
    """Return the partition count and replication factor that the cluster would give ``topic``.

    None if it does not return them to this user. Nothing is created. Raises AdminError, also if
    the topic could not be created.
    """
    from kafka.protocol.admin import CreateTopicsRequest as Request

    operation = f"creating topic {topic}"
    deadline = admin.deadline()
    request = Request(
        topics=[_creatable_topic(topic, [], configs)],
        timeout_ms=deadline.remaining_ms,
        validate_only=True,
    )
    (result,) = admin.send_to_controller(operation, request, deadline).topics
    if result.error_code:
        raise from_code(operation, request.name, result.error_code, result.error_message)
    partitions = getattr(result, "num_partitions", -1)
    replication_factor = getattr(result, "replication_factor", -1)
    if partitions <= 0 or replication_factor <= 0:
        return None
    return partitions, replication_factor


def wait_for_layout(admin: AdminConnection, new: Sequence[NewPartitions]) -> dict[str, str]:
    """Wait until brokers return all partitions, as requested and with a leader.

    Returns topic to what differs when the time is up: nothing if the layout is exactly the
    requested one. Raises AdminError if brokers do not respond.
    """
    deadline = admin.deadline()
    while True:
        state = read_state(
            admin, [each.topic for each in new], reassignments=False, deadline=admin.deadline()
        )
        differences = {each.topic: text for each in new if (text := _difference(each, state))}
        if not differences or not deadline.remaining:
            return differences
        time.sleep(_POLL_SECONDS)


def _difference(new: NewPartitions, state: ClusterState) -> str | None:
    """Return how the cluster differs from the requested layout, None if it does not."""
    layout = new.layout
    existing = {tp for tp in state.view.replicas if tp.topic == new.topic}
    if not existing:
        return "the brokers do not return it yet"
    if missing := sorted(layout.keys() - existing):
        return f"partition {missing[0].partition} is missing"
    count = new.first_partition + len(new.replicas)
    if len(existing) != count:
        return f"it has {len(existing)} partitions, not {count}"
    for tp, row in layout.items():
        actual = state.view.replicas[tp]
        # A controller may have begun to fill placeholders already.
        filled = new.without_placeholders is not None and actual[: len(row)] == row
        if actual != row and not filled:
            return f"partition {tp.partition} has replicas {list(actual)}, not {list(row)}"
    if leaderless := sorted(layout.keys() - state.view.known_leaders.keys()):
        return f"partition {leaderless[0].partition} has no leader"
    return None


def _create_topics_request(
    new: Sequence[NewPartitions], validate_only: bool, deadline: Deadline
) -> Any:
    from kafka.protocol.admin import CreateTopicsRequest as Request

    return Request(
        topics=[_creatable_topic(each.topic, each.requested, each.configs) for each in new],
        timeout_ms=deadline.remaining_ms,
        validate_only=validate_only,
    )


def _creatable_topic(
    name: str, replicas: Sequence[Sequence[int]], configs: Mapping[str, str]
) -> Any:
    """Return one topic of a CreateTopicsRequest; no ``replicas`` means the cluster's defaults."""
    from kafka.protocol.admin import CreateTopicsRequest

    topic = CreateTopicsRequest.CreatableTopic
    return topic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            topic.CreatableReplicaAssignment(partition_index=partition, broker_ids=list(row))
            for partition, row in enumerate(replicas)
        ],
        configs=[
            topic.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()
        ],
    )


def _create_partitions_request(
    new: Sequence[NewPartitions], validate_only: bool, deadline: Deadline
) -> Any:
    from kafka.protocol.admin import CreatePartitionsRequest as Request

    topic = Request.CreatePartitionsTopic
    return Request(
        topics=[
            topic(
                name=each.topic,
                count=each.first_partition + len(each.replicas),
                assignments=[
                    topic.CreatePartitionsAssignment(broker_ids=list(row)) for row in each.requested
                ],
            )
            for each in new
        ],
        timeout_ms=deadline.remaining_ms,
        validate_only=validate_only,
    )


# ---- Configuration of topics and brokers: reading it with defaults resolved, and changing it.

MIN_INSYNC_REPLICAS = "min.insync.replicas"
_MAX_CHANGED_PER_REQUEST = 200


class ResourceType(IntEnum):
    """Types of resources that have a configuration, with the protocol's numbers."""

    TOPIC = 2
    BROKER = 4


class ConfigResource(NamedTuple):
    """A topic, a broker (its id as text), or the defaults of all brokers (no name)."""

    type: ResourceType
    name: str


ALL_BROKERS = ConfigResource(ResourceType.BROKER, "")
"""The cluster-wide default of dynamic broker settings. Any broker accepts changes of it; a change
of one broker's own settings is accepted by that broker only, so not while it is down."""


class ConfigOp(IntEnum):
    """Operations of IncrementalAlterConfigs, with the protocol's numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """One change; APPEND and SUBTRACT split ``value`` at its commas."""

    key: str
    op: ConfigOp
    value: str | None = None


class ConfigValue(NamedTuple):
    """A setting and its source, a number of the protocol."""

    value: str | None
    source: int


def alter_configs(
    admin: AdminConnection,
    operation: str,
    changes: Mapping[ConfigResource, Sequence[ConfigChange]],
    *,
    node: int | None = None,
) -> dict[ConfigResource, AdminError]:
    """Apply the changes, those of one resource atomically; return the refused resources.

    They are sent to broker ``node``, None: any. Needs AlterConfigs on the topics, or on the cluster
    for brokers. Raises AdminError if no broker responds.
    """
    from kafka.protocol.admin import IncrementalAlterConfigsRequest as Request

    resource, change = Request.AlterConfigsResource, Request.AlterConfigsResource.AlterableConfig
    refused: dict[ConfigResource, AdminError] = {}
    for batch in batches([each for each in changes if changes[each]], _MAX_CHANGED_PER_REQUEST):
        request = Request(
            resources=[
                resource(
                    resource_type=int(each.type),
                    resource_name=each.name,
                    configs=[
                        change(name=key, config_operation=int(op), value=value)
                        for key, op, value in changes[each]
                    ],
                )
                for each in batch
            ],
            validate_only=False,
        )
        with admin.change(operation) as deadline:
            response = admin.send(operation, request, node=node, deadline=deadline)
        for result in response.responses:
            if result.error_code:
                failed = ConfigResource(ResourceType(result.resource_type), result.resource_name)
                refused[failed] = from_code(
                    f"{operation} of {failed.name or 'all brokers'}",
                    request.name,
                    result.error_code,
                    result.error_message,
                )
    return refused


def read_topic_configs(
    admin: AdminConnection,
    topics: Collection[str],
    keys: Collection[str],
    deadline: Deadline | None = None,
    *,
    broker: int | None = None,
) -> dict[str, dict[str, str]]:
    """Return topic to key to effective value: the topic's own, or else the broker's default.

    Topics that do not exist and keys without a value are left out. ``broker`` is the broker to
    read from, None: any. Needs DescribeConfigs on the topics. Raises AdminError.
    """
    operation = "reading the configuration of topics"
    until = deadline or admin.deadline()
    configs: dict[str, dict[str, str]] = {}
    for names in batches(sorted(topics)):
        results = describe_configs(
            admin, operation, ResourceType.TOPIC, names, keys, node=broker, deadline=until
        )
        configs.update((name, _values(each)) for name, each in results.items())
    return configs


def read_broker_configs(
    admin: AdminConnection, broker: int, keys: Collection[str], deadline: Deadline | None = None
) -> dict[str, str]:
    """Return key to effective value of one broker, read from that broker itself.

    Needs DescribeConfigs on the cluster. Raises AdminError.
    """
    operation = f"reading the configuration of broker {broker}"
    results = describe_configs(
        admin,
        operation,
        ResourceType.BROKER,
        [str(broker)],
        keys,
        node=broker,
        deadline=deadline,
    )
    return _values(results.get(str(broker), {}))


def read_default_min_isr(
    admin: AdminConnection, broker: int, deadline: Deadline | None = None
) -> int:
    """Return min.insync.replicas of topics without their own; see `read_broker_configs`."""
    configs = read_broker_configs(admin, broker, [MIN_INSYNC_REPLICAS], deadline)
    return int(configs.get(MIN_INSYNC_REPLICAS, "1"))


def parse_min_isr(configs: Mapping[str, Mapping[str, str]]) -> dict[str, int]:
    """Return topic to min.insync.replicas, from `read_topic_configs`; 1 where it is absent."""
    return {topic: int(values.get(MIN_INSYNC_REPLICAS, "1")) for topic, values in configs.items()}


def describe_configs(
    admin: AdminConnection,
    operation: str,
    resource_type: ResourceType,
    names: Collection[str],
    keys: Collection[str] | None,
    *,
    node: int | None = None,
    deadline: Deadline | None = None,
) -> dict[str, dict[str, ConfigValue]]:
    """Return resource name to key to value, of ``keys`` (None: all), as broker ``node`` has them.

    One request. A broker without a name is the default of all brokers. Topics that do not exist
    are left out. Raises AdminError.
    """
    from kafka.protocol.admin import DescribeConfigsRequest as Request

    request: Any = Request(
        resources=[
            Request.DescribeConfigsResource(
                resource_type=int(resource_type),
                resource_name=name,
                configuration_keys=None if keys is None else sorted(keys),
            )
            for name in names
        ],
        include_synonyms=False,
        include_documentation=False,
    )
    results = {}
    for result in admin.send(operation, request, node=node, deadline=deadline).results:
        if result.error_code == UNKNOWN_TOPIC:
            continue
        if result.error_code:
            where = operation
            if resource_type is ResourceType.TOPIC:
                where = f"{operation}: {result.resource_name}"
            raise from_code(where, request.name, result.error_code, result.error_message)
        results[result.resource_name] = {
            each.name: ConfigValue(each.value, each.config_source) for each in result.configs
        }
    return results


def _values(configs: Mapping[str, ConfigValue]) -> dict[str, str]:
    return {key: each.value for key, each in configs.items() if each.value is not None}
