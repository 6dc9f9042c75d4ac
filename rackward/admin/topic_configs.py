"""Configuration of topics: what applies to them, defaults resolved."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rackward.admin.connection import AdminConnection
from rackward.admin.deadline import Deadline
from rackward.admin.reads import batches
from rackward.admin.refusals import UNKNOWN_TOPIC, refusal

MIN_IN_SYNC = "min.insync.replicas"
_TOPIC = 2


def read_topic_configs(
    admin: AdminConnection,
    topics: Collection[str],
    keys: Collection[str],
    deadline: Deadline | None = None,
) -> dict[str, dict[str, str]]:
    """Topic to key to value, as it applies: the topic's own, or else the broker's default.

    Topics that are gone meanwhile, and keys that have no value, are left out. Raises
    AdminError; it takes DescribeConfigs on the topics.
    """
    from kafka.protocol.admin import DescribeConfigsRequest

    doing = "reading the configuration of topics"
    until = deadline or admin.deadline()
    resource = DescribeConfigsRequest.DescribeConfigsResource
    found: dict[str, dict[str, str]] = {}
    for names in batches(sorted(topics)):
        request = DescribeConfigsRequest(
            resources=[
                resource(resource_type=_TOPIC, resource_name=name, configuration_keys=sorted(keys))
                for name in names
            ],
            include_synonyms=False,
            include_documentation=False,
        )
        for result in admin.ask(doing, request, deadline=until).results:
            if result.error_code == UNKNOWN_TOPIC:
                continue
            if result.error_code:
                raise refusal(
                    f"{doing}: {result.resource_name}",
                    request.name,
                    result.error_code,
                    result.error_message,
                )
            found[result.resource_name] = {
                each.name: each.value for each in result.configs if each.value is not None
            }
    return found


def min_in_sync(configs: Mapping[str, Mapping[str, str]]) -> dict[str, int]:
    """min.insync.replicas per topic, out of what `read_topic_configs` found (1 where absent)."""
    return {topic: int(values.get(MIN_IN_SYNC, "1")) for topic, values in configs.items()}
