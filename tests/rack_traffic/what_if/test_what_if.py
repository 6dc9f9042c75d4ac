"""The scenarios, on a group small enough to be worked out by hand, and through Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from assignors import Member
from placement_core import TopicPartition
from rack_traffic.prices import PriceTable
from rack_traffic.schemas import PARTITION_HOURS, RANKING, SCENARIOS, WHAT_IF
from rack_traffic.what_if.assignments import apache_cooperative_sticky, apache_range, outcomes
from rack_traffic.what_if.evaluate import HOURS_PER_MONTH, figures, what_if
from rack_traffic.what_if.inputs import Figures, GroupCase, Interval, PartitionCase, group_inputs
from rack_traffic.what_if.ranking import ranking
from tests.support.traffic_frames import snapshots

GB = 10**9
RACKS: dict[int, str | None] = {0: "a", 1: "b", 2: "c"}
TOPICS = frozenset({"t"})


def member(name: str, rack: str | None, owned: list[int]) -> Member:
    return Member(id=name, topics=TOPICS, rack=rack, owned={"t": owned}, generation=0)


def case(leaders: list[int | None], *members: Member, hours: float = 1.0) -> GroupCase:
    """Partition n has replicas on its leader and the next broker, and n + 1 GB."""
    return GroupCase(
        cluster="c",
        group="g",
        assignor="range",
        hours=hours,
        members=members,
        partitions={
            TopicPartition("t", n): PartitionCase(
                leader,
                (0, 1) if leader is None else (leader, (leader + 1) % 3),
                () if leader is None else (leader, (leader + 1) % 3),
                (n + 1) * GB,
            )
            for n, leader in enumerate(leaders)
        },
        racks=RACKS,
    )


def all_figures(group: GroupCase) -> dict[str, Figures]:
    found = outcomes(group)
    return {each.scenario: figures(group, each, found[0], PriceTable()) for each in found}


def test_every_scenario_in_order() -> None:
    group = case([0, 1], member("m", "a", [0, 1]))
    assert tuple(each.scenario for each in outcomes(group)) == SCENARIOS


def test_a_group_that_reads_everything_from_elsewhere() -> None:
    """Members in a and b, each with the partitions that are led where the other one stands."""
    group = case([0, 0, 1, 1], member("m", "a", [2, 3]), member("n", "b", [0, 1]), hours=2.0)
    found = all_figures(group)
    now = found["as_is"]
    assert (now.off_rack_partitions, now.local_bytes, now.crossing_bytes) == (4, 0, 10 * GB)
    assert now.cost == pytest.approx(10 * 0.02)
    assert now.cost_per_month == pytest.approx(0.2 / 2 * HOURS_PER_MONTH)
    assert (now.most_partitions, now.least_partitions, now.moves) == (2, 2, 0)
    assert (now.most_bytes, now.mean_bytes) == (7 * GB, 5 * GB)
    assert found["apache_range"].moves == 4
    assert found["apache_range"].crossing_bytes == 0
    assert found["apache_cooperative_sticky"].crossing_bytes == 10 * GB
    assert found["apache_cooperative_sticky"].moves == 0
    ours = found["rackward_cooperative_sticky"]
    assert (ours.off_rack_partitions, ours.cost, ours.moves) == (0, 0.0, 4)
    # Broker 0's partitions have a replica in b, broker 1's none in a.
    assert found["follower_fetching"].crossing_bytes == 7 * GB
    assert found["follower_fetching"].moves == 0


def test_a_layout_makes_local_what_no_assignment_can() -> None:
    group = case([0, 0, 0, 0], member("m", "a", [0, 1]), member("n", "b", [2, 3]))
    found = all_figures(group)
    assert found["rackward_cooperative_sticky"].off_rack_partitions == 2
    after = found["rackward_after_leader_layout"]
    assert (after.off_rack_partitions, after.leader_moves) == (0, 2)
    assert after.most_partitions == 2


def test_what_is_not_known_is_counted_apart() -> None:
    group = case([0, None, 1], member("m", "a", [0, 1]), member("n", None, [2]))
    now = all_figures(group)["as_is"]
    assert (now.off_rack_partitions, now.unknown_partitions) == (0, 2)
    assert (now.local_bytes, now.crossing_bytes, now.unknown_bytes) == (GB, 0, 5 * GB)
    assert now.cost == 0.0


def test_a_partition_without_leader_or_owner() -> None:
    group = case([None, None], member("m", "a", []))
    for each in all_figures(group).values():
        assert each.bytes == 3 * GB
        assert each.unknown_bytes == 3 * GB


def test_range_as_apache_has_it() -> None:
    members = [
        Member(id="z", topics=frozenset({"t", "u"}), instance_id="1"),
        Member(id="a", topics=frozenset({"t"})),
        Member(id="b", topics=frozenset({"t", "u"})),
    ]
    owner = apache_range(members, {"t": 5, "u": 3, "nobody": 2})
    assert [owner[TopicPartition("t", n)] for n in range(5)] == ["z", "z", "a", "a", "b"]
    assert [owner[TopicPartition("u", n)] for n in range(3)] == ["z", "z", "b"]
    assert not [partition for partition in owner if partition.topic == "nobody"]


def test_cooperative_sticky_moves_no_more_than_balance_asks() -> None:
    members = [member("m", "a", [0, 1, 2, 3]), member("n", "b", [4]), member("o", "c", [])]
    owner = apache_cooperative_sticky(members, {"t": 6})
    kept = [n for n in (0, 1, 2, 3) if owner[TopicPartition("t", n)] == "m"]
    assert len(kept) == 2
    assert owner[TopicPartition("t", 4)] == "n"
    assert sorted(owner.values()) == ["m", "m", "n", "n", "o", "o"]


BEGIN = datetime(2026, 3, 2, 10, tzinfo=UTC)


def tables(spark: SparkSession) -> Any:
    """Two groups that share a topic: one reads across racks, the other does not."""
    rows: dict[str, list[dict[str, Any]]] = {
        "brokers": [],
        "partitions": [],
        "members": [],
        "commits": [],
    }
    for minute in (10, 50, 70):
        at = BEGIN + timedelta(minutes=minute)
        for broker, rack in RACKS.items():
            rows["brokers"].append({"cluster": "c", "broker": broker, "rack": rack, "taken_at": at})
        for partition in range(4):
            leader = partition // 2
            rows["partitions"].append(
                {
                    "cluster": "c",
                    "topic": "t",
                    "partition": partition,
                    "leader": leader,
                    "replicas": [leader, leader + 1],
                    "isr": [leader, leader + 1],
                    "start_offset": 0,
                    "end_offset": 0,
                    "taken_at": at,
                }
            )
        for group, owned in (
            ("bad", {"a": [2, 3], "b": [0, 1]}),
            ("good", {"a": [0, 1], "b": [2, 3]}),
        ):
            for rack, partitions in owned.items():
                rows["members"].append(
                    {
                        "cluster": "c",
                        "group": group,
                        "state": "Stable",
                        "protocol": "range",
                        "member_id": f"{group}-{rack}",
                        "rack": rack,
                        "topics": ["t"],
                        "assignment": [{"topic": "t", "partitions": partitions}],
                        "taken_at": at,
                    }
                )
    return snapshots(spark, rows)


def test_through_spark(spark: SparkSession) -> None:
    hours: list[tuple[Any, ...]] = [
        (
            "c",
            "consume",
            group,
            "t",
            partition,
            BEGIN + timedelta(hours=hour),
            "a",
            "b",
            GB,
            0,
            0,
            0,
        )
        for group in ("bad", "good", "gone")
        for partition in range(4)
        for hour in (0, 1)
    ]
    hours.append(("c", "produce", None, "t", 0, BEGIN, None, "a", GB, 0, 0, 0))
    given = spark.createDataFrame(hours, PARTITION_HOURS)
    inputs = group_inputs(tables(spark), given, Interval.HOUR)
    found = what_if(inputs, PriceTable()).persist()
    rows = found.collect()
    assert found.schema.names == WHAT_IF.names
    assert len(rows) == 2 * 2 * len(SCENARIOS)
    assert {row["shared_topics"] for row in rows} == {1}
    cell = {(row["group"], row["interval_start"].timestamp(), row["scenario"]): row for row in rows}
    for hour in (0, 1):
        start = BEGIN.timestamp() + hour * 3600
        assert cell["bad", start, "as_is"]["crossing_bytes"] == 4 * GB
        assert cell["bad", start, "as_is"]["interval_end"].timestamp() == start + 3600
        assert cell["bad", start, "rackward_range"]["crossing_bytes"] == 0
        assert cell["good", start, "as_is"]["local_bytes"] == 4 * GB

    ranked = ranking(found)
    assert ranked.schema.names == RANKING.names
    told = ranked.orderBy("rank").collect()
    found.unpersist()
    assert [(row["rank"], row["group"], row["scenario"]) for row in told] == [
        (1, "bad", "rackward_range"),
        (2, "bad", "rackward_range"),
        (3, "good", "as_is"),
        (4, "good", "as_is"),
    ]
    first = told[0]
    assert first["saving_per_month"] == pytest.approx(4 * 0.02 * HOURS_PER_MONTH)
    assert (first["locality_now"], first["locality_after"]) == (0.0, 1.0)
    assert "leader-rack-aware-range" in first["change"]
