"""close, the context manager, and what is said after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import TopicPartition as At

from integration.support.confluent import Callbacks, Consumers, new_group, read
from integration.support.topics import described
from rackward.clusters import Cluster
from tests.support.waiting import PATIENCE, wait_until

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
    "seek": lambda it: it.seek(At("t", 0, 0)),
    "get_watermark_offsets": lambda it: it.get_watermark_offsets(At("t", 0)),
    "offsets_for_times": lambda it: it.offsets_for_times([]),
    "memberid": lambda it: it.memberid(),
    "consumer_group_metadata": lambda it: it.consumer_group_metadata(),
    "list_topics": lambda it: it.list_topics(),
    "cluster_id": lambda it: it.cluster_id(),
    "set_sasl_credentials": lambda it: it.set_sasl_credentials("u", "p"),
}


# They say what was, and go on saying it.
OURS_ALONE = {"assignments", "last_assignment"}


def test_a_closed_consumer(consumers: Consumers) -> None:
    consumer = consumers()
    named = {name for name in dir(consumer) if not name.startswith("_")}
    assert named - OURS_ALONE == {*CALLS, "close"}
    assert consumer.close() is None
    assert consumer.close() is None
    for call in CALLS.values():
        with pytest.raises(RuntimeError, match=r"(?i)closed"):
            call(consumer)


def test_the_context_manager(consumers: Consumers, filled: str) -> None:
    calls = Callbacks()
    consumer = consumers()

    def fail_inside() -> None:
        with consumer as entered:
            assert entered is consumer
            consumer.subscribe([filled], **calls.all)
            read(consumer, until=lambda _: consumer.assignment(), what="an assignment")
            raise LookupError("planned")

    with pytest.raises(LookupError, match="planned"):
        fail_inside()
    everything = {(filled, p) for p in range(3)}
    assert calls.calls == [("assign", everything), ("revoke", everything)]
    with pytest.raises(RuntimeError):
        consumer.poll(0)
    with consumer:
        pass


def instances(cluster: Cluster, group: str) -> list[str | None]:
    """The instance id, or None, of each member that the coordinator knows."""
    (found,) = described(cluster, group)
    return [member["group_instance_id"] for member in found["members"]]


def test_a_dynamic_member_leaves_and_a_static_one_stays(
    consumers: Consumers, filled: str, cluster: Cluster
) -> None:
    group = new_group()
    # Longer than all of this takes, so that it is not for its silence that one is given up.
    seat = {"group.instance.id": "i", "session.timeout.ms": 240_000}
    dynamic, static = consumers(group=group), consumers(seat, group=group)
    for consumer in (dynamic, static):
        consumer.subscribe([filled])
    read(
        dynamic,
        static,
        until=lambda _: dynamic.assignment() and static.assignment(),
        what="an assignment each",
    )
    assert sorted(instances(cluster, group), key=str) == [None, "i"]
    static.close()
    assert len(instances(cluster, group)) == 2
    dynamic.close()
    wait_until(lambda: instances(cluster, group) == ["i"], PATIENCE, "the dynamic one has left")


def test_close_without_ever_polling(consumers: Consumers, filled: str) -> None:
    subscribed, assigned = consumers(), consumers()
    subscribed.subscribe([filled])
    assigned.assign([At(filled, 0)])
    assert subscribed.close() is None
    assert assigned.close() is None
