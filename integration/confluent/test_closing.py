"""close, the context manager, and methods of a closed consumer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from integration.support.confluent import Callbacks, Consumers, new_group, poll_until
from integration.support.topics import described
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)

CALLS: dict[str, Callable[[Any], object]] = {
    "poll": lambda it: it.poll(0),
    "consume": lambda it: it.consume(1, 0),
    "subscribe": lambda it: it.subscribe(["t"]),
    "unsubscribe": lambda it: it.unsubscribe(),
    "assign": lambda it: it.assign([]),
    "unassign": lambda it: it.unassign(),
    "incremental_assign": lambda it: it.incremental_assign([]),
    "incremental_unassign": lambda it: it.incremental_unassign([]),
    "assignment": lambda it: it.assignment(),
    "commit": lambda it: it.commit(),
    "store_offsets": lambda it: it.store_offsets(offsets=[]),
    "committed": lambda it: it.committed([]),
    "position": lambda it: it.position([]),
    "pause": lambda it: it.pause([]),
    "resume": lambda it: it.resume([]),
    "seek": lambda it: it.seek(TopicPartition("t", 0, 0)),
    "get_watermark_offsets": lambda it: it.get_watermark_offsets(TopicPartition("t", 0)),
    "offsets_for_times": lambda it: it.offsets_for_times([]),
    "memberid": lambda it: it.memberid(),
    "consumer_group_metadata": lambda it: it.consumer_group_metadata(),
    "list_topics": lambda it: it.list_topics(),
    "cluster_id": lambda it: it.cluster_id(),
    "set_sasl_credentials": lambda it: it.set_sasl_credentials("u", "p"),
}


ADDED_METHODS = {"assignments", "last_assignment"}
"""Methods that confluent's Consumer does not have. They work after ``close``."""


def test_every_method_of_a_closed_consumer_raises(consumers: Consumers) -> None:
    consumer = consumers()
    public = {name for name in dir(consumer) if not name.startswith("_")}
    assert public - ADDED_METHODS == {*CALLS, "close"}
    assert consumer.close() is None
    assert consumer.close() is None
    for call in CALLS.values():
        with pytest.raises(RuntimeError, match=r"(?i)closed"):
            call(consumer)


def test_the_context_manager_closes(consumers: Consumers, filled: str) -> None:
    calls = Callbacks()
    consumer = consumers()

    def fail_inside() -> None:
        with consumer as entered:
            assert entered is consumer
            consumer.subscribe([filled], **calls.all)
            poll_until(consumer, until=lambda _: consumer.assignment(), what="an assignment")
            raise LookupError("planned")

    with pytest.raises(LookupError, match="planned"):
        fail_inside()
    all_partitions = {(filled, p) for p in range(3)}
    assert calls.calls == [("assign", all_partitions), ("revoke", all_partitions)]
    with pytest.raises(RuntimeError):
        consumer.poll(0)
    with consumer:
        pass


def instance_ids(cluster: Cluster, group: str) -> list[str | None]:
    """Return the instance id, or None, of each member in the coordinator's description."""
    (description,) = described(cluster, group)
    return [member["group_instance_id"] for member in description["members"]]


def test_a_dynamic_member_leaves_and_a_static_one_stays(
    consumers: Consumers, filled: str, cluster: Cluster
) -> None:
    group = new_group()
    # Longer than this test takes, so that no member leaves because of its session timeout.
    static_settings = {"group.instance.id": "i", "session.timeout.ms": 240_000}
    dynamic, static = consumers(group=group), consumers(static_settings, group=group)
    for consumer in (dynamic, static):
        consumer.subscribe([filled])
    poll_until(
        dynamic,
        static,
        until=lambda _: dynamic.assignment() and static.assignment(),
        what="an assignment each",
    )
    assert sorted(instance_ids(cluster, group), key=str) == [None, "i"]
    static.close()
    assert len(instance_ids(cluster, group)) == 2
    dynamic.close()
    wait_until(
        lambda: instance_ids(cluster, group) == ["i"], TEST_TIMEOUT, "the dynamic one has left"
    )


def test_close_without_a_poll(consumers: Consumers, filled: str) -> None:
    subscribed, assigned = consumers(), consumers()
    subscribed.subscribe([filled])
    assigned.assign([TopicPartition(filled, 0)])
    assert subscribed.close() is None
    assert assigned.close() is None
