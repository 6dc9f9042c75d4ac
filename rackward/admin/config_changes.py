"""Changing configuration in steps that leave the rest alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from rackward.admin.connection import AdminConnection
from rackward.admin.errors import AdminError
from rackward.admin.reads import batches
from rackward.admin.refusals import refusal

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
