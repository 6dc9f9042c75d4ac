"""Configuration of topics and brokers: what applies to them, defaults resolved."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rackward.admin.config_changes import ResourceKind
from rackward.admin.connection import AdminConnection
from rackward.admin.deadline import Deadline
from rackward.admin.reads import batches
from rackward.admin.refusals import UNKNOWN_TOPIC, refusal

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
