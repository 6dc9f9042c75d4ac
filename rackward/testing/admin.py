"""Reads the metadata of a test cluster, and moves its leaders.

Every function takes the ports, on 127.0.0.1, of the brokers to ask. Requests have fixed
versions that every Kafka from 4.0 on understands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from typing import TYPE_CHECKING, Any, TypeVar

from placement_core import ClusterView, TopicPartition
from rackward.testing.errors import ClusterError, ClusterTimeoutError, requires_extra

if TYPE_CHECKING:
    from rackward.kafka.errors import RawConnection

RESPONSE_TIMEOUT = 30.0
"""Seconds until some broker must answer; each is tried again and again meanwhile."""

_REQUEST_TIMEOUT = 10.0
_PROBE_TIMEOUT = 2.0
_POLL_INTERVAL = 0.05
_ELECTION_TIMEOUT_MS = 5_000
_PREFERRED_ELECTION = 0
_METADATA_TOPIC = "__cluster_metadata"
_REQUEST_TIMED_OUT = 7

Result = TypeVar("Result")


def read_view(ports: Sequence[int], topics: Iterable[str] | None) -> ClusterView:
    """Return brokers, replicas and leaders as one of the brokers has them now.

    None: of all topics but internal ones. Topics that do not exist are left out.
    """
    names = None if topics is None else sorted(set(topics))
    return _call_any_broker(ports, lambda connection: _read_view(connection, names))


def is_serving(port: int, broker_id: int) -> bool:
    """Whether a broker answers at this port, and broker ``broker_id`` is in its metadata."""
    try:
        with _connection(port, _PROBE_TIMEOUT) as connection:
            return broker_id in _read_view(connection, []).racks()
    except OSError:
        return False


def wait_for_brokers(ports: Sequence[int], brokers: set[int], timeout: float) -> None:
    """Wait until ``brokers`` are in the metadata of every broker asked.

    Raises ClusterTimeoutError after ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    for port in ports:
        while missing := brokers - set(read_view([port], []).racks()):
            _wait(deadline, f"brokers {sorted(missing)} have not joined the cluster")


def committed_offset(ports: Sequence[int]) -> int:
    """Return the offset of the last record of the metadata log that is committed."""
    return int(_describe_quorum(ports)["high_watermark"]) - 1


def active_controller(ports: Sequence[int]) -> int:
    """Return the node id of the controller that leads the quorum, as a broker knows it."""
    return int(_describe_quorum(ports)["leader_id"])


def _describe_quorum(ports: Sequence[int]) -> dict[str, Any]:
    from kafka.protocol.admin import DescribeQuorumRequest as Request

    partition = Request.TopicData.PartitionData(partition_index=0)
    topic = Request.TopicData(topic_name=_METADATA_TOPIC, partitions=[partition])

    def describe(connection: RawConnection) -> dict[str, Any]:
        response = connection.send(Request[1](topics=[topic])).to_dict()
        logs = [log for topic in response["topics"] for log in topic["partitions"]]
        if response["error_code"] or not logs or logs[0]["error_code"]:
            # For example, the broker has lost its connection to the controller.
            raise ConnectionError("the broker cannot describe the controller quorum")
        return dict(logs[0])

    return _call_any_broker(ports, describe)


def move_leaders(
    ports: Sequence[int], leaders: Mapping[TopicPartition, int], timeout: float
) -> None:
    """Make each broker the preferred leader and the leader; wait until every broker shows it.

    Raises ClusterError if a partition does not exist or a broker holds no replica of it,
    and ClusterTimeoutError after ``timeout`` seconds.
    """
    # Callers may pass another (topic, partition) tuple.
    leaders = {TopicPartition(*partition): broker for partition, broker in leaders.items()}
    topics = sorted({partition.topic for partition in leaders})
    deadline = time.monotonic() + timeout
    reordered = _reordered(_complete_view(ports, topics, leaders), leaders)
    if reordered:
        _call_any_broker(ports, lambda connection: _reassign(connection, reordered))
    for port in ports:
        while pending := _not_yet_led(read_view([port], topics), leaders):
            # Repeated: a replica is not elected before it is back in sync.
            _call_any_broker(ports, lambda connection: _elect_preferred(connection, pending))
            if not _not_yet_led(read_view([port], topics), leaders):
                break
            partition = pending[0]
            _wait(
                deadline,
                f"{len(pending)} leaders have not moved, such as that of {partition.topic} "
                f"{partition.partition} to broker {leaders[partition]}: is it alive and in sync?",
            )


def _complete_view(
    ports: Sequence[int], topics: Sequence[str], partitions: Iterable[TopicPartition]
) -> ClusterView:
    """Return the view of a broker that has all partitions; a broker may lag behind others."""
    for port in ports:
        view = read_view([port], topics)
        if all(partition in view.replicas for partition in partitions):
            break
    return view


def _not_yet_led(view: ClusterView, leaders: Mapping[TopicPartition, int]) -> list[TopicPartition]:
    return [partition for partition, broker in leaders.items() if view.leader(partition) != broker]


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
            reordered[partition] = [broker, *(each for each in replicas if each != broker)]
    return reordered


def _reassign(connection: RawConnection, replicas: Mapping[TopicPartition, list[int]]) -> None:
    from kafka.protocol.admin import AlterPartitionReassignmentsRequest as Request

    topic, partition = Request.ReassignableTopic, Request.ReassignableTopic.ReassignablePartition
    topics = [
        topic(
            name=name,
            partitions=[
                partition(partition_index=each.partition, replicas=replicas[each])
                for each in partitions
            ],
        )
        for name, partitions in _by_topic(replicas).items()
    ]
    response = connection.send(Request[0](timeout_ms=_ELECTION_TIMEOUT_MS, topics=topics)).to_dict()
    _check("reordering replicas", response)
    for by_topic in response["responses"]:
        for result in by_topic["partitions"]:
            name, index = by_topic["name"], result["partition_index"]
            _check(f"reordering the replicas of {name} {index}", result)


def _elect_preferred(connection: RawConnection, partitions: Iterable[TopicPartition]) -> None:
    from kafka.protocol.admin import ElectLeadersRequest as Request

    indexes = [
        (name, [each.partition for each in group]) for name, group in _by_topic(partitions).items()
    ]
    connection.send(
        Request[2](
            election_type=_PREFERRED_ELECTION,
            topic_partitions=indexes,
            timeout_ms=_ELECTION_TIMEOUT_MS,
        )
    )


def _read_view(connection: RawConnection, topics: list[str] | None) -> ClusterView:
    from kafka.protocol.metadata import MetadataRequest as Request

    from rackward.kafka.metadata import parse_metadata

    names = None if topics is None else [Request.MetadataRequestTopic(name=each) for each in topics]
    response = connection.send(Request[12](topics=names, allow_auto_topic_creation=False))
    return parse_metadata(response, internal=topics is not None).view


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    grouped: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        grouped.setdefault(partition.topic, []).append(partition)
    return grouped


def _check(operation: str, response: Mapping[str, Any]) -> None:
    if response["error_code"] == _REQUEST_TIMED_OUT:
        # A TimeoutError is an OSError, so the call is repeated; it is idempotent.
        raise TimeoutError(f"the controller timed out {operation}")
    if response["error_code"]:
        from kafka.errors import for_code

        reason = response["error_message"] or for_code(response["error_code"]).__name__
        raise ClusterError(f"the controller refused {operation}: {reason}")


def _connection(port: int, timeout: float) -> AbstractContextManager[RawConnection]:
    with requires_extra("cluster"):
        import kafka  # noqa: F401
    from rackward.kafka.errors import RawConnection

    return closing(RawConnection("127.0.0.1", port, timeout))


def _call_any_broker(ports: Sequence[int], call: Callable[[RawConnection], Result]) -> Result:
    """Call with a connection to the first broker that answers; repeat on any OSError.

    Raises ClusterTimeoutError after RESPONSE_TIMEOUT seconds.
    """
    deadline = time.monotonic() + RESPONSE_TIMEOUT
    while True:
        for port in ports:
            try:
                with _connection(port, _REQUEST_TIMEOUT) as connection:
                    return call(connection)
            except OSError as error:
                problem = f"no broker answers at ports {', '.join(map(str, ports))} ({error})"
        _wait(deadline, problem)


def _wait(deadline: float, problem: str) -> None:
    if time.monotonic() > deadline:
        raise ClusterTimeoutError(f"timed out: {problem}")
    time.sleep(_POLL_INTERVAL)
