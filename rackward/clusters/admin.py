"""Reading a cluster's metadata and moving its leaders, at brokers that the caller names.

Every function takes the ports, on 127.0.0.1, of the brokers that are up. Requests have
fixed versions, which every Kafka from 4.0 on understands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from placement_core import ClusterView, TopicPartition
from rackward.clusters.errors import ClusterError, ClusterTimeoutError, MissingExtraError

if TYPE_CHECKING:
    from rackward.admin.diagnose import Connection

ANSWER_SECONDS = 30.0
_REQUEST_SECONDS = 10.0
_PROBE_SECONDS = 2.0
_PAUSE_SECONDS = 0.05
_ELECTION_MS = 5_000
_PREFERRED = 0
_METADATA_LOG = "__cluster_metadata"
_TIMED_OUT = 7

Answer = TypeVar("Answer")


def read_view(ports: Sequence[int], topics: Iterable[str] | None) -> ClusterView:
    """Brokers, replicas and leaders as one broker sees them now.

    None: every topic that is not internal. Topics that do not exist are left out.
    """
    named = None if topics is None else sorted(set(topics))
    return _at_any(ports, lambda connection: _view(connection, named))


def answers(port: int, broker_id: int) -> bool:
    """Whether a broker answers there, now, and knows that broker ``broker_id`` is up."""
    try:
        with _connection(port, _PROBE_SECONDS) as connection:
            return broker_id in _view(connection, []).racks()
    except OSError:
        return False


def wait_for_brokers(ports: Sequence[int], wanted: set[int], timeout: float) -> None:
    """Return when every broker asked knows of the wanted ones; ClusterTimeoutError otherwise."""
    deadline = time.monotonic() + timeout
    for port in ports:
        while missing := wanted - set(read_view([port], []).racks()):
            _pause(deadline, f"brokers {sorted(missing)} have not joined the cluster")


def committed_offset(ports: Sequence[int]) -> int:
    """The last record in the log of the cluster's metadata that its controller has committed."""
    from kafka.protocol.admin import DescribeQuorumRequest as Request

    asked = Request.TopicData(
        topic_name=_METADATA_LOG, partitions=[Request.TopicData.PartitionData(partition_index=0)]
    )

    def ask(connection: Connection) -> int:
        answer = connection.ask(Request[1](topics=[asked])).to_dict()
        logs = [log for topic in answer["topics"] for log in topic["partitions"]]
        if answer["error_code"] or not logs or logs[0]["error_code"]:
            # A broker that has lost its connection to the controller, say.
            raise ConnectionError("the broker does not tell the state of the controllers")
        return int(logs[0]["high_watermark"]) - 1

    return _at_any(ports, ask)


def move_leaders(
    ports: Sequence[int], leaders: Mapping[TopicPartition, int], timeout: float
) -> None:
    """Put each new leader first among its replicas, elect, wait until every broker knows."""
    wanted = {TopicPartition(*place): broker for place, broker in leaders.items()}
    topics = sorted({place.topic for place in wanted})
    deadline = time.monotonic() + timeout
    order = _reordered(_view_of(ports, topics, wanted), wanted)
    if order:
        _at_any(ports, lambda connection: _reassign(connection, order))
    for port in ports:
        while waiting := _elsewhere(read_view([port], topics), wanted):
            # Asked for again: a replica that has just come back is refused until in sync.
            _at_any(ports, lambda connection: _elect(connection, waiting))
            if not _elsewhere(read_view([port], topics), wanted):
                break
            place = waiting[0]
            _pause(
                deadline,
                f"{len(waiting)} leaders have not moved, such as that of {place.topic} "
                f"{place.partition} to broker {wanted[place]}: is it alive and in sync?",
            )


def _view_of(
    ports: Sequence[int], topics: Sequence[str], wanted: Mapping[TopicPartition, int]
) -> ClusterView:
    """The metadata of a broker that knows of all partitions: some may not have heard of them."""
    for port in ports:
        view = read_view([port], topics)
        if all(place in view.replicas for place in wanted):
            break
    return view


def _elsewhere(view: ClusterView, wanted: Mapping[TopicPartition, int]) -> list[TopicPartition]:
    return [place for place, broker in wanted.items() if view.leaders.get(place) != broker]


def _reordered(
    view: ClusterView, wanted: Mapping[TopicPartition, int]
) -> dict[TopicPartition, list[int]]:
    """The replica lists to change: the same replicas, the wanted leader first."""
    order = {}
    for place, broker in wanted.items():
        replicas = view.replicas.get(place)
        if replicas is None:
            raise ClusterError(f"there is no partition {place.partition} of {place.topic}")
        if broker not in replicas:
            raise ClusterError(
                f"broker {broker} holds no replica of {place.topic} {place.partition}: "
                f"only {', '.join(map(str, replicas))} can lead it"
            )
        if replicas[0] != broker:
            order[place] = [broker, *(each for each in replicas if each != broker)]
    return order


def _reassign(connection: Connection, order: Mapping[TopicPartition, list[int]]) -> None:
    from kafka.protocol.admin import AlterPartitionReassignmentsRequest as Request

    topic, partition = Request.ReassignableTopic, Request.ReassignableTopic.ReassignablePartition
    asked = [
        topic(
            name=name,
            partitions=[
                partition(partition_index=each.partition, replicas=order[each]) for each in places
            ],
        )
        for name, places in _by_topic(order).items()
    ]
    answer = connection.ask(Request[0](timeout_ms=_ELECTION_MS, topics=asked)).to_dict()
    _check("reordering replicas", answer)
    for each in answer["responses"]:
        for one in each["partitions"]:
            _check(f"reordering the replicas of {each['name']} {one['partition_index']}", one)


def _elect(connection: Connection, places: Iterable[TopicPartition]) -> None:
    from kafka.protocol.admin import ElectLeadersRequest as Request

    asked = [
        (name, [each.partition for each in group]) for name, group in _by_topic(places).items()
    ]
    connection.ask(
        Request[2](election_type=_PREFERRED, topic_partitions=asked, timeout_ms=_ELECTION_MS)
    )


def _view(connection: Connection, topics: list[str] | None) -> ClusterView:
    from kafka.protocol.metadata import MetadataRequest as Request

    from rackward.admin.metadata import state_of

    asked = None if topics is None else [Request.MetadataRequestTopic(name=each) for each in topics]
    answer = connection.ask(Request[12](topics=asked, allow_auto_topic_creation=False))
    return state_of(answer, internal=topics is not None).view


def _connection(port: int, timeout: float) -> Connection:
    try:
        from rackward.admin.diagnose import Connection
    except ImportError as error:
        raise MissingExtraError("kafka-python", "cluster") from error
    return Connection("127.0.0.1", port, timeout)


def _by_topic(places: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    grouped: dict[str, list[TopicPartition]] = {}
    for place in places:
        grouped.setdefault(place.topic, []).append(place)
    return grouped


def _check(what: str, answer: Mapping[str, Any]) -> None:
    if answer["error_code"] == _TIMED_OUT:
        # A busy controller, which may yet do it: asked again for the same, it does nothing.
        raise TimeoutError(f"the controller was too slow at {what}")
    if answer["error_code"]:
        from kafka.errors import for_code

        told = answer["error_message"] or for_code(answer["error_code"]).__name__
        raise ClusterError(f"the controller refused {what}: {told}")


def _at_any(ports: Sequence[int], do: Callable[[Connection], Answer]) -> Answer:
    """Do it at the first broker that answers, again and again for a while."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        for port in ports:
            try:
                with _connection(port, _REQUEST_SECONDS) as connection:
                    return do(connection)
            except OSError as error:
                silent = f"no broker at {', '.join(map(str, ports))} answers ({error})"
        _pause(deadline, silent)


def _pause(deadline: float, unless: str) -> None:
    if time.monotonic() > deadline:
        raise ClusterTimeoutError(f"in the time allowed: {unless}")
    time.sleep(_PAUSE_SECONDS)
