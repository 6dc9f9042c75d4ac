"""Configuration of topics and brokers: what applies to them, defaults resolved."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from rackward.admin.client import AdminConnection
from rackward.admin.errors import UNKNOWN_TOPIC, AdminError, Deadline, refusal
from rackward.admin.metadata import batches

# ---- Changing configuration in steps that leave the rest alone.

AT_ONCE = 200


class ResourceKind(IntEnum):
    """What has configuration; the values are the protocol's."""

    TOPIC = 2
    BROKER = 4


class Resource(NamedTuple):
    """A topic, a broker (its id as text), or all brokers (a broker without a name)."""

    kind: ResourceKind
    name: str


ALL_BROKERS = Resource(ResourceKind.BROKER, "")
"""What applies to every broker that has no setting of its own. Any broker takes changes of it,
while those of one broker are taken by itself alone, and so not when it is down."""


class Op(IntEnum):
    """What to do with a key; the values are the protocol's."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    """One change: of lists, APPEND and SUBTRACT take ``value`` apart at its commas."""

    key: str
    op: Op
    value: str | None = None


def change_configs(
    admin: AdminConnection, doing: str, changes: Mapping[Resource, Sequence[Change]]
) -> dict[Resource, AdminError]:
    """Make the changes, all of one resource together or none. Returns what was refused.

    Raises AdminError where no broker answers; it takes AlterConfigs on topics, or on the
    cluster for brokers.
    """
    from kafka.protocol.admin import IncrementalAlterConfigsRequest as Request

    resource, change = Request.AlterConfigsResource, Request.AlterConfigsResource.AlterableConfig
    refused: dict[Resource, AdminError] = {}
    for resources in batches([each for each in changes if changes[each]], AT_ONCE):
        request = Request(
            resources=[
                resource(
                    resource_type=int(each.kind),
                    resource_name=each.name,
                    configs=[
                        change(name=key, config_operation=int(op), value=value)
                        for key, op, value in changes[each]
                    ],
                )
                for each in resources
            ],
            validate_only=False,
        )
        for found in admin.ask(doing, request).responses:
            if found.error_code:
                place = Resource(ResourceKind(found.resource_type), found.resource_name)
                refused[place] = refusal(
                    f"{doing} of {place.name or 'all brokers'}",
                    request.name,
                    found.error_code,
                    found.error_message,
                )
    return refused


MIN_IN_SYNC = "min.insync.replicas"


def read_topic_configs(
    admin: AdminConnection,
    topics: Collection[str],
    keys: Collection[str],
    deadline: Deadline | None = None,
    *,
    broker: int | None = None,
) -> dict[str, dict[str, str]]:
    """Topic to key to value, as it applies: the topic's own, or else the broker's default.

    Topics that are gone meanwhile, and keys that have no value, are left out. ``broker`` is who
    is asked, None: any. Raises AdminError; it takes DescribeConfigs on the topics.
    """
    doing = "reading the configuration of topics"
    until = deadline or admin.deadline()
    found: dict[str, dict[str, str]] = {}
    for names in batches(sorted(topics)):
        found.update(_read(admin, doing, ResourceKind.TOPIC, names, keys, broker, until))
    return found


def read_broker_configs(
    admin: AdminConnection, broker: int, keys: Collection[str], deadline: Deadline | None = None
) -> dict[str, str]:
    """Key to value as it applies to one broker, which is asked itself; see `read_topic_configs`.

    Raises AdminError; it takes DescribeConfigs on the cluster.
    """
    doing = f"reading the configuration of broker {broker}"
    until = deadline or admin.deadline()
    found = _read(admin, doing, ResourceKind.BROKER, [str(broker)], keys, broker, until)
    return found.get(str(broker), {})


def default_min_in_sync(
    admin: AdminConnection, broker: int, deadline: Deadline | None = None
) -> int:
    """min.insync.replicas of topics that do not say theirs; see `read_broker_configs`."""
    found = read_broker_configs(admin, broker, [MIN_IN_SYNC], deadline)
    return int(found.get(MIN_IN_SYNC, "1"))


def _read(
    admin: AdminConnection,
    doing: str,
    kind: ResourceKind,
    names: Collection[str],
    keys: Collection[str],
    node: int | None,
    until: Deadline,
) -> dict[str, dict[str, str]]:
    from kafka.protocol.admin import DescribeConfigsRequest

    resource = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest(
        resources=[
            resource(resource_type=int(kind), resource_name=name, configuration_keys=sorted(keys))
            for name in names
        ],
        include_synonyms=False,
        include_documentation=False,
    )
    found = {}
    for result in admin.ask(doing, request, node=node, deadline=until).results:
        if result.error_code == UNKNOWN_TOPIC:
            continue
        if result.error_code:
            told = f"{doing}: {result.resource_name}" if kind is ResourceKind.TOPIC else doing
            raise refusal(told, request.name, result.error_code, result.error_message)
        found[result.resource_name] = {
            each.name: each.value for each in result.configs if each.value is not None
        }
    return found


def min_in_sync(configs: Mapping[str, Mapping[str, str]]) -> dict[str, int]:
    """min.insync.replicas per topic, out of what `read_topic_configs` found (1 where absent)."""
    return {topic: int(values.get(MIN_IN_SYNC, "1")) for topic, values in configs.items()}
