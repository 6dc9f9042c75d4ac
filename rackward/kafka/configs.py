"""Configuration of topics and brokers: reading it with defaults resolved, and changing it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from kafka.admin import AlterConfigOp, ConfigResourceType
from kafka.protocol.admin import DescribeConfigsRequest, IncrementalAlterConfigsRequest

from rackward.kafka.client import AdminConnection
from rackward.kafka.errors import UNKNOWN_TOPIC, AdminError, UnauthorizedError, from_code
from rackward.kafka.metadata import batches

MIN_INSYNC_REPLICAS = "min.insync.replicas"
REPLICA_SELECTOR = "replica.selector.class"
_MAX_CHANGED_PER_REQUEST = 200


class ConfigResource(NamedTuple):
    """A topic, a broker (its id as text), or the defaults of all brokers (no name)."""

    type: ConfigResourceType
    name: str


ALL_BROKERS = ConfigResource(ConfigResourceType.BROKER, "")
"""The cluster-wide default of dynamic broker settings. Any broker accepts changes of it; a change
of one broker's own settings is accepted by that broker only, so not while it is down."""


class ConfigChange(NamedTuple):
    """One change; APPEND and SUBTRACT split ``value`` at its commas."""

    key: str
    op: AlterConfigOp
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
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    refused: dict[ConfigResource, AdminError] = {}
    for batch in batches([each for each in changes if changes[each]], _MAX_CHANGED_PER_REQUEST):
        request = IncrementalAlterConfigsRequest(
            resources=[
                resource(
                    resource_type=int(each.type),
                    resource_name=each.name,
                    configs=[
                        resource.AlterableConfig(name=key, config_operation=int(op), value=value)
                        for key, op, value in changes[each]
                    ],
                )
                for each in batch
            ],
            validate_only=False,
        )
        with admin.change(operation):
            response = admin.send(operation, request, node=node)
        for result in response.responses:
            if result.error_code:
                failed = ConfigResource(
                    ConfigResourceType(result.resource_type), result.resource_name
                )
                refused[failed] = from_code(
                    f"{operation} of {failed.name or 'all brokers'}",
                    request.name,
                    result.error_code,
                    result.error_message,
                    acl=f"AlterConfigs on {_acl_resource(failed.type, failed.name)}",
                )
    return refused


def read_topic_configs(
    admin: AdminConnection,
    topics: Collection[str],
    keys: Collection[str],
    *,
    broker: int | None = None,
) -> dict[str, dict[str, str]]:
    """Return topic to key to effective value: the topic's own, or else the broker's default.

    Topics that do not exist and keys without a value are left out. ``broker`` is the broker to
    read from, None: any. Needs DescribeConfigs on the topics. Raises AdminError.
    """
    configs, hidden = read_visible_topic_configs(admin, topics, keys, broker=broker)
    raise_first(hidden)
    return configs


def read_visible_topic_configs(
    admin: AdminConnection,
    topics: Collection[str],
    keys: Collection[str],
    *,
    broker: int | None = None,
) -> tuple[dict[str, dict[str, str]], dict[str, UnauthorizedError]]:
    """Return what `read_topic_configs` does of the topics that this user may read, and topic to
    error of the others, whether they exist or not. Raises AdminError."""
    operation = "reading the configuration of topics"
    configs: dict[str, dict[str, str]] = {}
    hidden: dict[str, UnauthorizedError] = {}
    with admin.within():
        for names in batches(sorted(topics)):
            results, errors = describe_configs(
                admin, operation, ConfigResourceType.TOPIC, names, keys, node=broker
            )
            configs.update((name, _values(each)) for name, each in results.items())
            for name, error in errors.items():
                if not isinstance(error, UnauthorizedError):
                    raise error
                hidden[name] = error
    return configs, hidden


def read_broker_configs(
    admin: AdminConnection, broker: int, keys: Collection[str]
) -> dict[str, str]:
    """Return key to effective value of one broker, read from that broker itself.

    Needs DescribeConfigs on the cluster. Raises AdminError.
    """
    name, operation = str(broker), f"reading the configuration of broker {broker}"
    results, errors = describe_configs(
        admin, operation, ConfigResourceType.BROKER, [name], keys, node=broker
    )
    raise_first(errors)
    return _values(results.get(name, {}))


def read_default_min_isr(admin: AdminConnection, broker: int) -> int:
    """Return min.insync.replicas of topics without their own; see `read_broker_configs`."""
    configs = read_broker_configs(admin, broker, [MIN_INSYNC_REPLICAS])
    return int(configs.get(MIN_INSYNC_REPLICAS, "1"))


def read_min_isr(admin: AdminConnection, topics: Collection[str]) -> dict[str, int]:
    """Return min.insync.replicas of existing topics. Raises AdminError."""
    configs = read_topic_configs(admin, topics, [MIN_INSYNC_REPLICAS])
    return {topic: int(values.get(MIN_INSYNC_REPLICAS, "1")) for topic, values in configs.items()}


def describe_configs(
    admin: AdminConnection,
    operation: str,
    resource_type: ConfigResourceType,
    names: Collection[str],
    keys: Collection[str] | None,
    *,
    node: int | None = None,
) -> tuple[dict[str, dict[str, ConfigValue]], dict[str, AdminError]]:
    """Return resource name to key to value, of ``keys`` (None: all), as broker ``node`` has them.

    And resource name to error. One request. A broker without a name is the default of all brokers.
    Topics that do not exist are left out. Raises AdminError.
    """
    request: Any = DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=int(resource_type),
                resource_name=name,
                configuration_keys=None if keys is None else sorted(keys),
            )
            for name in names
        ],
        include_synonyms=False,
        include_documentation=False,
    )
    results: dict[str, dict[str, ConfigValue]] = {}
    errors: dict[str, AdminError] = {}
    for result in admin.send(operation, request, node=node).results:
        name = result.resource_name
        if result.error_code == UNKNOWN_TOPIC:
            continue
        if result.error_code:
            errors[name] = from_code(
                f"{operation}: {name}" if resource_type is ConfigResourceType.TOPIC else operation,
                request.name,
                result.error_code,
                result.error_message,
                acl=f"DescribeConfigs on {_acl_resource(resource_type, name)}",
            )
            continue
        results[name] = {
            each.name: ConfigValue(each.value, each.config_source) for each in result.configs
        }
    return results, errors


def raise_first(errors: Mapping[Any, AdminError]) -> None:
    """Raise the first of the errors, if there are any."""
    for error in errors.values():
        raise error


def _acl_resource(resource_type: ConfigResourceType, name: str) -> str:
    """Return what a user needs a right on for the configuration of a resource."""
    return name if resource_type is ConfigResourceType.TOPIC else "the cluster"


def _values(configs: Mapping[str, ConfigValue]) -> dict[str, str]:
    return {key: each.value for key, each in configs.items() if each.value is not None}
