"""Every private part of kafka-python that rackward relies on, in one table.

It covers this adapter, :mod:`assignors.confluent` (whose group membership is kafka-python's; the
event loop that it extends is in its own table) and ``rackward.kafka``. kafka-python documents only
its three clients, so the methods of its coordinator, connection manager and metadata count as
private, whatever their names.
"""

from __future__ import annotations

from functools import cache

from assignors.library_internals import Internals, check_internals, unsupported_import

SUPPORTED = "kafka-python>=3.0.8,<3.1"

try:
    import kafka
    import kafka.consumer.group
    from kafka.cluster import ClusterMetadata
    from kafka.consumer.fetcher import Fetcher
    from kafka.consumer.subscription_state import SubscriptionState, TopicPartitionState
    from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
    from kafka.coordinator.base import BaseCoordinator
    from kafka.coordinator.consumer import ConsumerCoordinator
    from kafka.coordinator.heartbeat import Heartbeat
    from kafka.net.compat import KafkaNetClient
    from kafka.net.manager import KafkaConnectionManager
    from kafka.structs import MemberState
except ImportError as error:
    if error.name == "kafka":  # Not installed.
        raise
    raise unsupported_import(error, SUPPORTED) from error

INTERNALS: Internals = {
    # Looked up there when a KafkaConsumer is constructed, and so replaced there.
    kafka.consumer.group: ["ConsumerCoordinator", "Fetcher"],
    kafka.KafkaConsumer: [
        "self.config",
        "self._client",
        "self._coordinator",
        "self._fetcher",
        "_poll_once(self, timer, max_records, update_offsets)",
    ],
    kafka.KafkaAdminClient: ["self._manager"],
    BaseCoordinator: ["close(self, timeout_ms)"],
    ConsumerCoordinator: [
        "__init__(self, client, subscription, configs)",
        # overridden
        "poll(self, timeout_ms)",
        "need_rejoin(self)",
        "time_to_next_poll(self)",
        "commit_offsets_async(self, offsets, callback)",
        "commit_offsets_sync(self, offsets, timeout_ms)",
        "close(self, autocommit, timeout_ms)",
        "_perform_assignment(self, leader_id, protocol_name, members)",
        "_process_join_group_response(self, response, send_time)",
        "_do_join_and_sync_async(self)",
        "_on_join_prepare_async(self, generation, member_id, timeout_ms)",
        "_on_join_complete_async(self, generation, member_id, protocol, member_assignment_bytes)",
        "_handle_metadata_update(self, cluster)",
        "_invoke_rebalance_listener_async(self, method_name, arg)",
        "_send_group_coordinator_request(self)",
        "_send_heartbeat_request(self)",
        "_send_offset_commit_request(self, offsets)",
        "is_dynamic_member(self)",
        "maybe_leave_group_async(self, reason, timeout_ms)",
        "request_rejoin(self)",
        "reset_generation(self, member_id)",
        # called
        "coordinator(self)",
        "coordinator_dead(self, error)",
        "ensure_active_group(self, timeout_ms)",
        "ensure_coordinator_ready(self, timeout_ms)",
        "ensure_coordinator_ready_async(self, timeout_ms)",
        "group_metadata(self)",
        "fetch_committed_offsets_async(self, partitions, timeout_ms)",
        "poll_heartbeat(self)",
        "rebalance_in_progress(self)",
        "stable(self)",
        "_build_metadata_snapshot(self, subscription, cluster)",
        "_commit_offsets_sync_async(self, offsets, timeout_ms)",
        "_enable_heartbeat(self)",
        "_handle_offset_commit_response(self, offsets, send_time, response)",
        "_invoke_completed_offset_commit_callbacks(self)",
        "_maybe_auto_commit_offsets_async(self)",
        # read or assigned
        "group_id",
        "group_instance_id",
        "self.config",
        "self.coordinator_id",
        "self.heartbeat",
        "self.rejoining",
        "self.state",
        "self._heartbeat_loop_future",
        "self._join_task",
        "self._metadata_snapshot",
        "self._offset_fetch_futures",
        "self._rebalance_protocol",
    ],
    AbstractPartitionAssignor: [
        "name",
        "supported_protocols(self)",
        "metadata(self, topics)",
        "assign(self, cluster, members)",
        "on_assignment(self, assignment, generation)",
    ],
    Heartbeat: [
        "session_timeout_expired(self)",
        "self.config",
        "self.last_receive",
        "self.last_send",
    ],
    SubscriptionState: [
        "all_consumed_offsets(self)",
        "assign_from_subscribed(self, assignments)",
        "assigned_partitions(self)",
        "change_subscription(self, topics)",
        "group_subscribe(self, topics)",
        "group_subscription(self)",
        "partitions_auto_assigned(self)",
        "unsubscribe(self)",
        "_set_subscription_type(self, subscription_type)",
        "self.assignment",
        "self.rebalance_listener",
        "self.subscribed_pattern",
        "self.subscription",
    ],
    TopicPartitionState: ["clear_preferred_read_replica(self)"],
    ClusterMetadata: [
        "add_coordinator(self, response, key_type, key, synthesize_node_id)",
        "broker_metadata(self, broker_id)",
        "brokers(self)",
        "leader_for_partition(self, partition)",
        "partitions_for_topic(self, topic)",
        "request_update(self)",
        "set_topics(self, topics)",
        "topics(self, exclude_internal_topics)",
        "self.config",
        "self.need_all_topic_metadata",
        "self.unauthorized_topics",
        "self._future",
        "self._last_successful_refresh_ms",
        "self._lock",
        "self._need_update",
        "self._partitions",
        "self._topics",
    ],
    Fetcher: [
        "_create_fetch_requests(self)",
        "_handle_fetch_error(self, node_id, exception)",
        "_handle_fetch_response(self, node_id, fetch_offsets, send_time, response)",
        "_select_read_replica(self, tp)",
        "self.config",
        "self._manager",
        "self._subscriptions",
    ],
    KafkaConnectionManager: [
        "__init__(self, net, configs)",
        "auth_failure(self, node_id)",
        "bootstrap_async(self, timeout_ms, refresh)",
        "close(self, node_id, timeout_ms)",
        "connection_delay(self, node_id)",
        "run(self, coro, args)",
        "send(self, request, node_id, request_timeout_ms)",
        "broker_version",
        "self.cluster",
        "self.config",
        "self._auth_failures",
    ],
    KafkaNetClient: [
        "__init__(self, net, manager, configs)",
        "is_disconnected(self, node_id)",
        "close(self, node_id)",
        "cluster",
        "self._manager",
        "self._net",
    ],
    MemberState: ["STABLE", "UNJOINED"],
}
"""What is overridden, called, read or assigned; see `assignors.library_internals`."""


@cache
def check_kafka_python() -> None:
    """Raise UnsupportedClientError if the installed kafka-python lacks any of `INTERNALS`."""
    check_internals(INTERNALS, SUPPORTED)
