"""Whether the aiokafka that is installed is one that the coordinator can stand on."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import aiokafka
import aiokafka.consumer.consumer
from aiokafka.client import AIOKafkaClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.protocol import group

from assignors.aiokafka.errors import UnsupportedAiokafkaError

OLDEST = "0.13.0"
"""The oldest aiokafka that the adapter was tested with."""

NEEDED: Iterable[tuple[Any, Iterable[str]]] = (
    # Looked up there when a consumer is started, and so replaced there.
    (aiokafka.consumer.consumer, ["GroupCoordinator"]),
    (
        GroupCoordinator,
        [
            "_send_req(self, request)",
            "_perform_assignment(self, response)",
            "_on_join_prepare(self, previous_assignment)",
            "_on_join_complete(self, generation, member_id, protocol, member_assignment_bytes)",
            "_maybe_do_last_autocommit(self, assignment)",
            "_do_commit_offsets(self, assignment, offsets)",
            "_get_metadata_snapshot(self)",
            "_lookup_assignor(self, name)",
            "request_rejoin(self)",
            "close(self)",
        ],
    ),
    (
        group,
        [
            "JoinGroupRequest(group, session_timeout, rebalance_timeout, member_id,"
            " group_instance_id, protocol_type, group_protocols)"
        ],
    ),
    (
        AIOKafkaClient,
        ["set_topics(self, topics)", "force_metadata_update(self)", "_maybe_wait_metadata(self)"],
    ),
    (
        ClusterMetadata,
        [
            "brokers(self)",
            "partitions_for_topic(self, topic)",
            "partitions_for_broker(self, broker_id)",
        ],
    ),
)
"""What the coordinator calls, replaces or is called by, private parts included."""


def check_support(
    needed: Iterable[tuple[Any, Iterable[str]]] = NEEDED, version: str = aiokafka.__version__
) -> None:
    """Raises UnsupportedAiokafkaError where aiokafka lacks something of ``needed``."""
    for owner, names in needed:
        for declared in names:
            name, _, parameters = declared.partition("(")
            found = getattr(owner, name, None)
            if found is None or (parameters and not _takes(found, parameters.rstrip(")"))):
                raise UnsupportedAiokafkaError(
                    f"aiokafka {version} has no {owner.__name__}.{declared}, which the assignors"
                    f" need: install aiokafka {OLDEST} or later; if yours is, rackward has to"
                    " be brought up to it"
                )


def _takes(function: Any, parameters: str) -> bool:
    if not callable(function):
        return False
    return list(inspect.signature(function).parameters) == parameters.split(", ")
