"""Every private part of aiokafka that the adapter relies on, in one table."""

from __future__ import annotations

from functools import cache

from assignors.library_internals import Internals, check_internals, unsupported_import

SUPPORTED = "aiokafka>=0.13,<0.15"

try:
    import aiokafka
    import aiokafka.consumer.consumer
    from aiokafka.client import AIOKafkaClient
    from aiokafka.cluster import ClusterMetadata
    from aiokafka.consumer.group_coordinator import GroupCoordinator
    from aiokafka.protocol import group
    from aiokafka.protocol.group import JoinGroupRequest

    if isinstance(JoinGroupRequest, list):  # Before 0.13, of one class per version.
        raise ImportError("JoinGroupRequest is no class")
except ImportError as error:
    if error.name == "aiokafka":  # Not installed.
        raise
    raise unsupported_import(error, SUPPORTED) from error

INTERNALS: Internals = {
    # Looked up there when a consumer is started, and so replaced there.
    aiokafka.consumer.consumer: ["GroupCoordinator", "Fetcher"],
    GroupCoordinator: [
        # overridden
        "_send_req(self, request)",
        "_on_join_prepare(self, previous_assignment)",
        "_perform_assignment(self, response)",
        "_on_join_complete(self, generation, member_id, protocol, member_assignment_bytes)",
        "_do_commit_offsets(self, assignment, offsets)",
        "_is_commit_retriable(self, error)",
        "close(self)",
        # called
        "_lookup_assignor(self, name)",
        "_get_metadata_snapshot(self)",
        "request_rejoin(self)",
        # read or assigned
        "self.group_id",
        "self.generation",
        "self._assignors",
        "self._group_instance_id",
        "self._group_subscription",
        "self._metadata_snapshot",
        "self._rejoin_needed_fut",
    ],
    group: [
        "JoinGroupRequest(group, session_timeout, rebalance_timeout, member_id,"
        " group_instance_id, protocol_type, group_protocols)"
    ],
    JoinGroupRequest: ["self._group_protocols"],
    AIOKafkaClient: [
        "set_topics(self, topics)",
        "force_metadata_update(self)",
        "_maybe_wait_metadata(self)",
        "self.cluster",
    ],
    ClusterMetadata: [
        "brokers(self)",
        "partitions_for_topic(self, topic)",
        "self.unauthorized_topics",
        "self._partitions",
    ],
}
"""What the coordinator overrides, calls, reads or assigns; see `assignors.library_internals`."""


@cache
def check_aiokafka() -> None:
    """Raise UnsupportedClientError if the installed aiokafka lacks any of `INTERNALS`."""
    check_internals(INTERNALS, SUPPORTED)
