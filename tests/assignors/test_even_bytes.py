"""``balance="bytes"``: members even in traffic, and the four arms of rack-aware producing."""

from __future__ import annotations

import logging
import random
import time
from dataclasses import replace

import pytest

from assignors import LeaderRackAwareCooperativeSticky, Member
from assignors.explain import Reason, RemedyKind, explain
from placement_core import Broker, ClusterView, InvalidOptionError, TopicPartition
from placement_core.leaders import ConsumerDemand, WriterDemand, plan_leaders
from tests.support.group_leader import joined_member, leaders_in, rebalanced, sticky_rebalance

EVEN_BYTES = LeaderRackAwareCooperativeSticky(balance="bytes")


@pytest.mark.parametrize("seed", range(60))
def test_no_load_exceeds_the_mean_by_a_partition(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(1, 40)
    members = [
        Member(f"m{n}", frozenset("t"), rng.choice(("a", "b", None)), owned={"t": [n]})
        for n in range(rng.randint(1, 8))
    ]
    weights = {"t": [float(rng.choice((1, 2, 5, 30))) for _ in range(count)]}
    racks = {"t": [rng.choice(("a", "b", "c", None)) for _ in range(count)]}
    plan = EVEN_BYTES.assign(members, racks, weights)
    assert sorted(p for each in plan.partitions.values() for p in each.get("t", ())) == list(
        range(count)
    )
    loads = [sum(weights["t"][p] for p in each.get("t", ())) for each in plan.partitions.values()]
    assert max(loads) < sum(loads) / len(loads) + max(weights["t"])
    rng.shuffle(members)
    assert EVEN_BYTES.assign(members, racks, weights) == plan


def group(
    partitions: int, members: int, *, sigma: float
) -> tuple[list[Member], dict[str, list[str | None]], dict[str, list[float]]]:
    """Return members in three racks, leaders' racks, and log-normal weights."""
    rng = random.Random(1)
    racks: list[str | None] = [rng.choice("abc") for _ in range(partitions)]
    weights = [rng.lognormvariate(0, sigma) for _ in range(partitions)]
    who = [Member(f"m{n:03}", frozenset("t"), "abc"[n % 3]) for n in range(members)]
    return who, {"t": racks}, {"t": weights}


def test_a_plan_is_kept_while_nothing_changes() -> None:
    members, racks, weights = group(300, 9, sigma=1.5)
    plan = EVEN_BYTES.assign(members, racks, weights)
    assert plan.optimum is None
    owning = [replace(each, owned=plan.partitions[each.id]) for each in members]
    assert EVEN_BYTES.assign(owning, racks, weights) == replace(plan, moved=0)
    rng = random.Random(2)
    for n in rng.sample(range(300), 15):
        weights["t"][n] *= 1.1
    assert EVEN_BYTES.assign(owning, racks, weights).moved < 60


def test_equal_weights_keep_the_proof() -> None:
    members, racks, _ = group(300, 9, sigma=1.5)
    plan = EVEN_BYTES.assign(members, racks, {"t": [2.0] * 300})
    assert plan == LeaderRackAwareCooperativeSticky().assign(members, racks)
    assert plan.optimum == plan.off_rack


def test_the_log_does_not_claim_an_optimum_by_bytes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rackward.assignors")
    members, racks, weights = group(300, 9, sigma=1.5)
    rebalance = sticky_rebalance(EVEN_BYTES, weights=weights)
    rebalanced(rebalance, leaders_in(**racks), [joined_member(m.id, m.rack) for m in members])
    (line,) = [r.getMessage() for r in caplog.records if r.levelno == logging.INFO]
    assert " optimum=unknown moved=0 " in line
    assert " off_rack=unknown" not in line


def test_an_explanation_compares_with_members_even_in_bytes() -> None:
    """The best plan by partitions is not what a rebalance would give."""
    members, racks, weights = group(300, 9, sigma=1.5)
    plan = EVEN_BYTES.assign(members, racks, weights)
    found = explain(members, racks, plan.partitions, EVEN_BYTES, weights)
    assert (found.off_rack, found.optimum, found.uneven) == (plan.off_rack, plan.off_rack, False)
    assert found.best == plan.partitions
    assert not {each.reason for each in found.findings} & {Reason.NOT_OPTIMAL}
    for finding in found.findings:
        for remedy in finding.remedies:
            if remedy.kind is RemedyKind.MOVE_LEADERS:
                moved = {topic: list(row) for topic, row in racks.items()}
                for rack, partitions in remedy.moves.items():
                    for topic, numbers in partitions.items():
                        for n in numbers:
                            moved[topic][n] = rack
                assert remedy.off_rack_after == EVEN_BYTES.assign(members, moved, weights).off_rack


def test_thousands_of_partitions_take_no_second() -> None:
    members, racks, weights = group(10_000, 100, sigma=1)
    start = time.process_time()
    plan = EVEN_BYTES.assign(members, racks, weights)
    assert time.process_time() - start < 1
    loads = [sum(weights["t"][n] for n in own.get("t", ())) for own in plan.partitions.values()]
    assert max(loads) < sum(loads) / 100 + max(weights["t"])


def test_another_balance_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="balance is 'records'"):
        LeaderRackAwareCooperativeSticky(balance="records")


def arms(
    per_topic: dict[str, float], per_rack: dict[str | None, int], count: int
) -> dict[str, tuple[float, float, float]]:
    """Return per arm the shares produced and consumed across, and the heaviest load by the mean.

    Racks write 60, 30 and 10 % of each topic of ``count`` partitions; ``per_rack`` are members.
    """
    shares = {"a": 0.6, "b": 0.3, "c": 0.1}
    everything = sum(per_topic.values())
    topics = frozenset(per_topic)
    brokers = tuple(Broker(n, "abc"[n % 3]) for n in range(6))
    replicas = {
        TopicPartition(topic, n): (n % 6, (n + 1) % 6, (n + 2) % 6)
        for topic in sorted(topics)
        for n in range(count)
    }
    view = ClusterView(brokers, replicas)
    racks = view.racks()
    members = [
        Member(f"{rack}{n}", topics, rack)
        for rack, number in per_rack.items()
        for n in range(number)
    ]
    blind = [Member(each.id, topics) for each in members]
    written: dict[str | TopicPartition, dict[str | None, float]] = {
        topic: {rack: total * share for rack, share in shares.items()}
        for topic, total in per_topic.items()
    }
    demand = ConsumerDemand("g", topics, per_rack, weight=everything / len(replicas))
    writer = WriterDemand("w", written, rack_aware=True)
    order = plan_leaders(view, [demand], writers=[writer]).order
    now = {p: racks[row[0]] for p, row in replicas.items()}
    moved = {p: racks[row[0]] for p, row in order.items()}
    found = {}
    for arm, leaders, follows, who, balance in (
        ("stock", now, False, blind, "partitions"),
        ("partitioner", now, True, members, "partitions"),
        ("layout", moved, True, members, "partitions"),
        ("bytes", moved, True, members, "bytes"),
    ):
        sizes: dict[str, list[float]] = {}
        produced = 0.0
        for topic, total in per_topic.items():
            of_topic = [leaders[TopicPartition(topic, n)] for n in range(count)]
            if follows:
                sizes[topic] = [
                    total * shares[str(rack)] / of_topic.count(rack) for rack in of_topic
                ]
                produced += sum(total * shares[r] for r in shares if r not in of_topic)
            else:
                sizes[topic] = [total / count] * count
                produced += sum(total / count * (1 - shares[str(rack)]) for rack in of_topic)
        leader_racks = {
            topic: [leaders[TopicPartition(topic, n)] for n in range(count)] for topic in topics
        }
        assignor = LeaderRackAwareCooperativeSticky(balance=balance)
        plan = assignor.assign(who, leader_racks, sizes if balance == "bytes" else None)
        rack_of = {member.id: member.rack for member in members}
        loads, consumed = [], 0.0
        for member, owned in plan.partitions.items():
            read = [(leader_racks[t][n], sizes[t][n]) for t, row in owned.items() for n in row]
            loads.append(sum(size for _, size in read))
            consumed += sum(size for rack, size in read if rack != rack_of[member])
        found[arm] = (
            produced / everything,
            consumed / everything,
            max(loads) * len(loads) / sum(loads),
        )
    return found


def test_byte_weights_even_out_topics_of_unequal_traffic() -> None:
    """By count some members get the busy topics' partitions: each takes more than others."""
    per_topic = {f"t{n}": 1_000 / (n + 1) for n in range(8)}
    found = arms(per_topic, {"a": 12, "b": 6, "c": 2}, 24)
    produced, consumed, heaviest = found["bytes"]
    assert max(produced, consumed) <= 0.02, found
    assert heaviest <= 1.1 < found["layout"][2], found
