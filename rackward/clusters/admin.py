"""Reading a cluster's metadata and moving its leaders, through kafka-python's admin client.

Each call makes a client of its own from the brokers that are up: a client kept over the
death of a broker can wait for it longer than the test that killed it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from placement_core import Broker, ClusterView, TopicPartition
from rackward.clusters.errors import ClusterError, ClusterTimeoutError, MissingExtraError

_REQUEST_MS = 5_000
_PAUSE_SECONDS = 0.05
_PREFERRED = 0


def read_view(bootstrap: str, topics: Iterable[str] | None) -> ClusterView:
    """Brokers, replicas and leaders as one broker sees them now.

    None: every topic that is not internal. Topics that do not exist are left out.
    """
    with _client(bootstrap) as client:
        return _view(client, None if topics is None else sorted(set(topics)))


def wait_for_brokers(bootstrap: str, count: int, timeout: float) -> None:
    """Return when the metadata shows ``count`` brokers; ClusterTimeoutError otherwise."""
    deadline = time.monotonic() + timeout
    with _client(bootstrap) as client:
        while (found := len(_view(client, []).brokers)) < count:
            _pause(deadline, f"{found} of {count} brokers have joined the cluster")


def move_leaders(bootstrap: str, leaders: Mapping[TopicPartition, int], timeout: float) -> None:
    """Put each partition's new leader first among its replicas, elect, wait until it shows."""
    wanted = {TopicPartition(*place): broker for place, broker in leaders.items()}
    deadline = time.monotonic() + timeout
    with _client(bootstrap) as client:
        topics = sorted({place.topic for place in wanted})
        view = _view(client, topics)
        _reorder(client, view, wanted)
        while waiting := {
            place: broker for place, broker in wanted.items() if view.leaders.get(place) != broker
        }:
            _elect(client, waiting)
            view = _view(client, topics)
            if any(view.leaders.get(place) != broker for place, broker in waiting.items()):
                place, broker = next(iter(waiting.items()))
                _pause(
                    deadline,
                    f"{len(waiting)} leaders have not moved, such as that of {place.topic} "
                    f"{place.partition} to broker {broker}: is it alive and in sync?",
                )
                view = _view(client, topics)


def _reorder(client: Any, view: ClusterView, wanted: Mapping[TopicPartition, int]) -> None:
    """Make each wanted leader the first of its partition's replicas."""
    from kafka import TopicPartition as Place

    changes = {}
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
            changes[Place(*place)] = [broker, *(each for each in replicas if each != broker)]
    if not changes:
        return
    refused = {
        place: error
        for place, error in client.alter_partition_reassignments(changes).items()
        if error is not None
    }
    if refused:
        place, error = next(iter(refused.items()))
        raise ClusterError(
            f"the replicas of {place.topic} {place.partition} were not reordered: {error.__name__}"
        )


def _elect(client: Any, places: Iterable[TopicPartition]) -> None:
    """Ask for preferred leaders; what is refused now is asked for again by the caller."""
    partitions: dict[str, list[int]] = {}
    for place in places:
        partitions.setdefault(place.topic, []).append(place.partition)
    client.elect_leaders(_PREFERRED, partitions, raise_errors=False)


def _view(client: Any, topics: list[str] | None) -> ClusterView:
    cluster = client.describe_cluster()
    found = client.describe_topics(topics) if topics is None or topics else []
    replicas: dict[TopicPartition, tuple[int, ...]] = {}
    leaders: dict[TopicPartition, int] = {}
    for topic in found:
        if topics is None and topic["is_internal"]:
            continue
        for partition in topic["partitions"]:
            place = TopicPartition(topic["name"], partition["partition_index"])
            replicas[place] = tuple(partition["replica_nodes"])
            if partition["leader_id"] >= 0:
                leaders[place] = partition["leader_id"]
    brokers = sorted(
        (broker["broker_id"], broker["rack"])
        for broker in cluster["brokers"]
        if not broker.get("is_fenced", False)
    )
    return ClusterView(
        brokers=tuple(Broker(each, rack or None) for each, rack in brokers),
        replicas=dict(sorted(replicas.items())),
        leaders=dict(sorted(leaders.items())),
    )


@contextmanager
def _client(bootstrap: str) -> Iterator[Any]:
    try:
        from kafka import KafkaAdminClient
        from kafka.errors import KafkaError
    except ImportError as error:
        raise MissingExtraError("kafka-python", "cluster") from error
    try:
        client = KafkaAdminClient(
            bootstrap_servers=bootstrap.split(","),
            request_timeout_ms=_REQUEST_MS,
            bootstrap_timeout_ms=2 * _REQUEST_MS,
        )
        try:
            yield client
        finally:
            client.close()
    except KafkaError as error:
        raise ClusterError(f"the cluster at {bootstrap} refused: {error!r}") from error


def _pause(deadline: float, unless: str) -> None:
    if time.monotonic() > deadline:
        raise ClusterTimeoutError(f"in the time allowed: {unless}")
    time.sleep(_PAUSE_SECONDS)
