"""``balance="bytes"``: members even in traffic."""

from __future__ import annotations

import logging
import random
import time
from dataclasses import replace

import pytest

from assignors import LeaderRackAwareCooperativeSticky, Member
from assignors.explain import Reason, RemedyKind, explain
from placement_core import InvalidOptionError
from tests.support.group_leader import joined_member, leaders_in, rebalanced, sticky_protocol

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
    protocol = sticky_protocol(EVEN_BYTES, weights=weights)
    rebalanced(protocol, leaders_in(**racks), [joined_member(m.id, m.rack) for m in members])
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


@pytest.mark.parametrize(("balance", "is_even"), [("partitions", False), ("bytes", True)])
def test_byte_weights_even_out_topics_of_unequal_traffic(balance: str, is_even: bool) -> None:
    """By count some members get the busy topics' partitions: each takes more than others.

    Racks write 60, 30 and 10 % of each topic, into as many of its partitions, which they lead.
    """
    leaders = {f"t{n}": [*"a" * 14, *"b" * 7, *"c" * 3] for n in range(8)}
    shares = {"a": 0.6 / 14, "b": 0.3 / 7, "c": 0.1 / 3}
    sizes = {t: [shares[rack] / (n + 1) for rack in leaders[t]] for n, t in enumerate(leaders)}
    topics = frozenset(leaders)
    members = [Member(f"m{n:02}", topics, rack) for n, rack in enumerate("a" * 12 + "b" * 6 + "cc")]
    assignor = LeaderRackAwareCooperativeSticky(balance=balance)
    plan = assignor.assign(members, leaders, sizes if balance == "bytes" else None)
    loads, off_rack = [], 0.0
    for member in members:
        owned = [(t, n) for t, row in plan.partitions[member.id].items() for n in row]
        loads.append(sum(sizes[t][n] for t, n in owned))
        off_rack += sum(sizes[t][n] for t, n in owned if leaders[t][n] != member.rack)
    assert off_rack <= 0.02 * sum(loads)
    assert (max(loads) * len(loads) / sum(loads) <= 1.1) is is_even
