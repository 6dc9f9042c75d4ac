"""Requests to the running brokers of a test cluster: its metadata, its quorum, and its leaders.

A client chooses the broker of a request, and waits for one that is paused. `RunningBrokers` asks
the running ones in turn until one answers, and so the functions of `rackward.kafka` work while
other brokers are down.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any

from placement_core import ClusterView, TopicPartition
from rackward.kafka import AdminConnection, AdminTimeoutError
from rackward.kafka.errors import RawConnection
from rackward.kafka.metadata import read_topics
from rackward.kafka.topics import elect_preferred_leaders, reassign
from rackward.testing.errors import ClusterError, ClusterTimeoutError
from rackward.units import Deadline

RESPONSE_TIMEOUT = 30.0
"""Seconds until some broker must answer; each is tried again and again meanwhile."""

_REQUEST_TIMEOUT = 10.0
_PROBE_TIMEOUT = 2.0
_LEADER_MOVE_TIMEOUT = 90.0
_POLL_INTERVAL = 0.05
_METADATA_TOPIC = "__cluster_metadata"

_VERSIONS = {
    "AlterPartitionReassignmentsRequest": 0,
    "DescribeQuorumRequest": 1,
    "ElectLeadersRequest": 2,
    "MetadataRequest": 12,
}
"""Versions that every Kafka from 3.9 on understands."""


class RunningBrokers(AdminConnection):
    """Sends requests to the brokers at these ports of 127.0.0.1, in turn until one answers.

    Raises ClusterTimeoutError if none answers within RESPONSE_TIMEOUT.
    """

    def __init__(self, ports: Sequence[int]) -> None:
        addresses = ",".join(f"127.0.0.1:{port}" for port in ports)
        super().__init__(None, addresses, RESPONSE_TIMEOUT)
        self._ports = list(ports)

    def send(self, operation: str, request: Any, *, node: int | None = None) -> Any:  # noqa: ARG002
        """Return the response of the first broker that answers."""
        until = self.deadline()
        while True:
            for port in self._ports:
                try:
                    return _send(port, request, _REQUEST_TIMEOUT)
                except OSError as error:
                    fault = f"{operation}: no broker answers at {self.bootstrap_servers} ({error})"
            _wait(until, fault)

    def send_to_controller(self, operation: str, request: Any) -> Any:
        """Return the response of the first broker that answers; brokers forward the request."""
        return self.send(operation, request)

    def view(self, topics: Iterable[str] | None) -> ClusterView:
        """Return brokers, replicas and leaders as one of the brokers has them now.

        None: of all topics but internal ones. Topics that do not exist are left out.
        """
        names = None if topics is None else sorted(set(topics))
        return read_topics(self, names, internal=names is not None).view

    def quorum(self) -> Any:
        """Return the state of the controllers' log: ``leader_id``, ``high_watermark`` and more."""
        from kafka.protocol.admin import DescribeQuorumRequest as Request

        partition = Request.TopicData.PartitionData(partition_index=0)
        topic = Request.TopicData(topic_name=_METADATA_TOPIC, partitions=[partition])
        deadline = self.deadline()
        while True:
            response = self.send("describing the quorum", Request(topics=[topic]))
            logs = [log for topic in response.topics for log in topic.partitions]
            if not response.error_code and logs and not logs[0].error_code:
                return logs[0]
            # For example, this broker has lost its connection to the controller.
            self._ports.append(self._ports.pop(0))
            _wait(deadline, "the brokers cannot describe the controller quorum")


def is_serving(port: int, broker_id: int) -> bool:
    """Whether a broker answers at this port, and broker ``broker_id`` is in its metadata."""
    from kafka.protocol.metadata import MetadataRequest

    try:
        response = _send(port, MetadataRequest(topics=[]), _PROBE_TIMEOUT)
    except OSError:
        return False
    return any(broker.node_id == broker_id for broker in response.brokers)


def move_leaders(brokers: RunningBrokers, leaders: Mapping[TopicPartition, int]) -> None:
    """Make each broker the preferred leader and the leader of its partition.

    Raises ClusterError if a partition does not exist or a broker holds no replica of it,
    and ClusterTimeoutError.
    """
    # Callers may pass another (topic, partition) tuple.
    leaders = {TopicPartition(*partition): broker for partition, broker in leaders.items()}
    topics = {partition.topic for partition in leaders}
    deadline = Deadline.after(_LEADER_MOVE_TIMEOUT)
    while True:
        view = brokers.view(topics)
        reordered = _reordered(view, leaders)
        waiting = [tp for tp, broker in leaders.items() if view.leader(tp) != broker]
        if not reordered and not waiting:
            return
        try:
            for error in reassign(brokers, reordered).values():
                raise error
            # Repeated: a replica is not elected before it is back in sync.
            elect_preferred_leaders(brokers, waiting)
        except AdminTimeoutError:
            pass  # The controller is busy.
        _wait(
            deadline,
            f"{len(waiting)} leaders have not moved, such as that of "
            f"{', '.join(f'{tp.topic} {tp.partition}' for tp in waiting[:1])}: "
            "are the brokers alive and in sync?",
        )


def _reordered(
    view: ClusterView, leaders: Mapping[TopicPartition, int]
) -> dict[TopicPartition, list[int]]:
    """Return the replica lists that must change: the new leader first, the others as they are."""
    reordered = {}
    for partition, broker in leaders.items():
        replicas = view.replicas.get(partition)
        if replicas is None:
            raise ClusterError(f"there is no partition {partition.partition} of {partition.topic}")
        if broker not in replicas:
            raise ClusterError(
                f"broker {broker} holds no replica of {partition.topic} {partition.partition}: "
                f"only {', '.join(map(str, replicas))} can lead it"
            )
        if replicas[0] != broker:
            reordered[partition] = [broker, *(other for other in replicas if other != broker)]
    return reordered


def _send(port: int, request: Any, timeout: float) -> Any:
    request.API_VERSION = _VERSIONS[type(request).__name__]
    with closing(RawConnection("127.0.0.1", port, timeout)) as connection:
        return connection.send(request)


def _wait(deadline: Deadline, problem: str) -> None:
    if not deadline.remaining:
        raise ClusterTimeoutError(f"timed out: {problem}")
    time.sleep(_POLL_INTERVAL)
