"""The scenarios of the what-if: on small groups with known results, and on Spark."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession

from assignors import Member
from placement_core import RACK_AWARE_SELECTOR, TopicPartition
from rack_traffic.options import Interval
from rack_traffic.pipeline import priced_hours
from rack_traffic.prices import PRESETS, PriceTable
from rack_traffic.schemas import PARTITION_HOURS, RANKING, WHAT_IF
from rack_traffic.tables import HOURS_PER_MONTH, INT, LONG, SCENARIOS, columns_schema
from rack_traffic.tables import WHAT_IF as WHAT_IF_COLUMNS
from rack_traffic.what_if import evaluate
from rack_traffic.what_if.cases import (
    NO_OWNER,
    GroupCase,
    PartitionCase,
    ScenarioMetrics,
    scenario_metrics,
)
from rack_traffic.what_if.evaluate import producers_what_if, what_if
from rack_traffic.what_if.inputs import group_inputs
from rack_traffic.what_if.ranking import ranking
from rack_traffic.what_if.scenarios import (
    groups_sharing_topics,
    leader_layout,
    scenario_assignments,
)
from rack_traffic.writers import parse_writers
from tests.support.traffic_frames import snapshots

GB = 10**9
RACKS: dict[int, str | None] = {0: "a", 1: "b", 2: "c"}
TOPICS = frozenset({"t"})


def member(name: str, rack: str | None, owned: list[int]) -> Member:
    return Member(id=name, topics=TOPICS, rack=rack, owned={"t": owned}, generation=0)


def case(leaders: list[int | None], *members: Member, hours: float = 1.0) -> GroupCase:
    """Return a group; partition n has replicas on its leader and the next broker, and n + 1 GB."""
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


def metrics(group: GroupCase) -> dict[str, ScenarioMetrics]:
    scenarios = scenario_assignments(group, leader_layout([group]))
    return {
        each.scenario: scenario_metrics(group, each, scenarios[0], PriceTable())
        for each in scenarios
    }


OTHERS = ("leader_layout", "rack_aware_producers")
CLASSIC_SCENARIOS = [name for name in SCENARIOS if name not in OTHERS]


@pytest.mark.parametrize(
    ("by_brokers", "expected"),
    [(False, CLASSIC_SCENARIOS), (True, ["as_is", "leader_layout", "follower_fetching"])],
)
def test_all_scenarios_are_in_order(by_brokers: bool, expected: list[str]) -> None:
    group = replace(case([0, 1], member("m", "a", [0, 1])), assigned_by_brokers=by_brokers)
    scenarios = scenario_assignments(group, leader_layout([group]))
    assert [each.scenario for each in scenarios] == expected


def test_a_group_that_reads_only_across_racks() -> None:
    """Each of two members has the partitions whose leaders are in the rack of the other."""
    group = case([0, 0, 1, 1], member("m", "a", [2, 3]), member("n", "b", [0, 1]), hours=2.0)
    by_scenario = metrics(group)
    now = by_scenario["as_is"]
    assert (now.off_rack_partitions, now.local_bytes, now.crossing_bytes) == (4, 0, 10 * GB)
    assert now.cost == pytest.approx(10 * 0.02)
    assert now.cost_per_month == pytest.approx(0.2 / 2 * HOURS_PER_MONTH)
    assert (now.max_partitions, now.min_partitions, now.moves) == (2, 2, 0)
    assert (now.max_bytes, now.mean_bytes) == (7 * GB, 5 * GB)
    assert by_scenario["apache_range"].moves == 4
    assert by_scenario["apache_range"].crossing_bytes == 0
    assert by_scenario["apache_cooperative_sticky"].crossing_bytes == 10 * GB
    assert by_scenario["apache_cooperative_sticky"].moves == 0
    aware = by_scenario["rackward_cooperative_sticky"]
    assert (aware.off_rack_partitions, aware.cost, aware.moves) == (0, 0.0, 4)
    # The partitions of broker 0 have a replica in rack b; those of broker 1 have none in rack a.
    assert by_scenario["follower_fetching"].crossing_bytes == 7 * GB
    assert by_scenario["follower_fetching"].moves == 0


@pytest.mark.parametrize(
    ("sends_rack", "crossing", "unknown"),
    [(True, 7, 0), (False, 10, 0), (None, 7, 3)],
)
def test_followers_that_are_read_already(
    sends_rack: bool | None, crossing: int, unknown: int
) -> None:
    """Partitions 0 and 1 have a replica in their member's rack, 2 and 3 have none."""
    known = {} if sends_rack is None else dict.fromkeys("mn", sends_rack)
    group = replace(
        case([0, 0, 1, 1], member("m", "a", [2, 3]), member("n", "b", [0, 1])),
        selecting=frozenset(RACKS),
        sends_rack=known,
    )
    by_scenario = metrics(group)
    now = by_scenario["as_is"]
    assert (now.crossing_bytes, now.unknown_bytes) == (crossing * GB, unknown * GB)
    assert "follower_fetching" not in by_scenario
    assert by_scenario["rackward_cooperative_sticky"].crossing_bytes == 0
    # One broker that does not select replicas: then it is a change.
    partly = replace(group, selecting=frozenset({0, 1}))
    assert "follower_fetching" in metrics(partly)
    assert metrics(partly)["as_is"] == now


def test_leaders_do_not_move_for_groups_that_read_followers() -> None:
    follows = replace(
        case([0, 0, 0, 0], member("m", "a", [0, 1]), member("n", "b", [2, 3])),
        selecting=frozenset(RACKS),
        sends_rack={"m": True, "n": True},
    )
    reads_leaders = replace(follows, group="h", sends_rack={"m": False, "n": False})
    assert groups_sharing_topics([follows, reads_leaders]) == [[follows], [reads_leaders]]
    assert leader_layout([follows]).moves == 0
    assert leader_layout([reads_leaders]).moves == 2
    assert metrics(follows)["rackward_after_leader_layout"].crossing_bytes == 0


def test_leader_layout_is_more_local_than_any_assignment() -> None:
    group = case([0, 0, 0, 0], member("m", "a", [0, 1]), member("n", "b", [2, 3]))
    by_scenario = metrics(group)
    assert by_scenario["rackward_cooperative_sticky"].off_rack_partitions == 2
    after = by_scenario["rackward_after_leader_layout"]
    assert (after.off_rack_partitions, after.leader_moves) == (0, 2)
    assert after.max_partitions == 2


def test_by_bytes_crosses_with_the_smallest_partitions() -> None:
    group = case([0, 0, 0, 1], member("m", "a", [0, 3]), member("n", "b", [1, 2]))
    by_scenario = metrics(group)
    plain, by_bytes = (
        by_scenario[name] for name in ("rackward_cooperative_sticky", "rackward_by_bytes")
    )
    # Balanced, one of the three partitions of 1, 2 and 3 GB that are led in rack a is read in b.
    assert (plain.off_rack_partitions, by_bytes.off_rack_partitions) == (1, 1)
    assert (plain.max_partitions, by_bytes.max_partitions) == (2, 2)
    assert by_bytes.crossing_bytes == GB < plain.crossing_bytes


def test_weights_are_recommended_if_they_save_one_percent(spark: SparkSession) -> None:
    costs = {
        "uneven": {"rackward_cooperative_sticky": 10.0, "rackward_by_bytes": 8.0},
        "even": {"rackward_cooperative_sticky": 10.0, "rackward_by_bytes": 9.9},
    }
    rows = [
        scenario_row(group, scenario, cost, group)
        for group, of_group in costs.items()
        for scenario, cost in (
            of_group | {"as_is": 100.0, "rackward_after_leader_layout": 90.0}
        ).items()
    ]
    ranked = ranked_groups(spark, rows)
    assert ranked["uneven"]["scenario"] == "rackward_by_bytes"
    assert ranked["uneven"]["saving_per_month"] == 92.0
    assert ranked["uneven"]["change"] == "change for rackward_by_bytes"
    assert ranked["even"]["scenario"] == "rackward_cooperative_sticky"


def test_unknown_racks_are_counted_separately() -> None:
    group = case([0, None, 1], member("m", "a", [0, 1]), member("n", None, [2]))
    now = metrics(group)["as_is"]
    assert (now.off_rack_partitions, now.unknown_partitions) == (0, 2)
    assert (now.local_bytes, now.crossing_bytes, now.unknown_bytes) == (GB, 0, 5 * GB)
    assert now.cost == 0.0


def test_a_partition_without_leader_or_owner() -> None:
    group = case([None, None], member("m", "a", []))
    for each in metrics(group).values():
        assert each.bytes == 3 * GB
        assert each.unknown_bytes == 3 * GB


def owners(group: GroupCase, scenario: str) -> dict[TopicPartition, str]:
    """Return the owner of each partition under a scenario."""
    scenarios = scenario_assignments(group, leader_layout([group]))
    (assignment,) = (each for each in scenarios if each.scenario == scenario)
    return {
        partition: group.members[number].id
        for partition, number in zip(group.partitions, assignment.owner.tolist(), strict=True)
        if number != NO_OWNER
    }


def group_of(members: list[Member], sizes: dict[str, int]) -> GroupCase:
    """Return a group with topics of those sizes; partition n is led in the rack n modulo 3."""
    partitions = {
        TopicPartition(topic, n): PartitionCase(n % 3, (n % 3,), (n % 3,))
        for topic, size in sizes.items()
        for n in range(size)
    }
    return GroupCase("c", "g", "range", 1.0, tuple(members), partitions, RACKS)


def range_assignor(members: Sequence[Member], sizes: dict[str, int]) -> dict[TopicPartition, str]:
    """Return the result of Apache Kafka's RangeAssignor, as its documentation describes it.

    For each topic, members sorted by instance id and then member id get contiguous blocks; the
    first members get one partition more.
    """
    owner = {}
    for topic, size in sizes.items():
        subscribed = sorted(
            (each for each in members if topic in each.topics),
            key=lambda each: (each.instance_id is None, each.instance_id or each.id),
        )
        start = 0
        for index, each in enumerate(subscribed):
            end = start + size // len(subscribed) + (index < size % len(subscribed))
            owner.update({TopicPartition(topic, n): each.id for n in range(start, end)})
            start = end
    return owner


@pytest.mark.parametrize("seed", range(20))
def test_the_scenario_apache_range_equals_the_range_assignor(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(10):
        sizes = {f"t{n}": rng.randint(1, 9) for n in range(rng.randint(1, 4))}
        members = [
            Member(
                id=f"m{number}",
                topics=frozenset(rng.sample(sorted(sizes), rng.randint(0, len(sizes)))),
                rack=rng.choice([None, "a", "b"]),
                instance_id=rng.choice([None, f"i{99 - number}"]),
            )
            for number in rng.sample(range(30), rng.randint(1, 7))
        ]
        actual = owners(group_of(members, sizes), "apache_range")
        assert actual == range_assignor(members, sizes)


def test_apache_sticky_moves_only_what_balance_requires() -> None:
    members = [member("m", "a", [0, 1, 2, 3]), member("n", "b", [4]), member("o", "c", [])]
    owner = owners(group_of(members, {"t": 6}), "apache_cooperative_sticky")
    unmoved = [n for n in (0, 1, 2, 3) if owner[TopicPartition("t", n)] == "m"]
    assert len(unmoved) == 2
    assert owner[TopicPartition("t", 4)] == "n"
    assert sorted(owner.values()) == ["m", "m", "n", "n", "o", "o"]


BEGIN = datetime(2026, 3, 2, 10, tzinfo=UTC)


def tables(spark: SparkSession) -> Any:
    """Return snapshots of two groups of one topic: one reads across racks, the other locally."""
    rows: dict[str, list[dict[str, Any]]] = {
        "brokers": [],
        "partitions": [],
        "members": [],
        "commits": [],
    }
    for minute in (10, 50, 70):
        at = BEGIN + timedelta(minutes=minute)
        for broker, rack in RACKS.items():
            row = {"cluster": "c", "broker": broker, "rack": rack, "taken_at": at}
            # The broker that leads nothing selects replicas.
            selector = RACK_AWARE_SELECTOR if broker == 2 else ""
            rows["brokers"].append(row | {"replica_selector": selector})
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
                        "group_type": "classic" if group == "bad" else None,
                        "member_id": f"{group}-{rack}",
                        "rack": rack,
                        "rack_source": "subscription",
                        "topics": ["t"],
                        "assignment": [{"topic": "t", "partitions": partitions}],
                        "taken_at": at,
                    }
                )
    return snapshots(spark, rows)


def test_tables_on_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    hours: list[tuple[Any, ...]] = [
        ("c", "consume", group, "t", partition, BEGIN + timedelta(hours=hour), "a", "b", GB, 0, 0)
        for group in ("bad", "good", "absent")
        for partition in range(4)
        for hour in (0, 1)
    ]
    hours.append(("c", "produce", None, "t", 0, BEGIN, None, "a", GB, 0, 0))
    given = spark.createDataFrame(hours, PARTITION_HOURS)
    inputs = group_inputs(tables(spark), given, Interval.HOUR, timedelta(hours=1)).persist()
    case_of_bad = next(
        evaluate.group_case(row.asDict(recursive=True))
        for row in inputs.collect()
        if row["group"] == "bad"
    )
    assert case_of_bad.selecting == {2}
    assert case_of_bad.sends_rack == {"bad-a": True, "bad-b": True}
    # Older snapshots have no type.
    assert {row["group_type"] for row in inputs.collect()} == {"classic", None}
    scenarios = what_if(inputs, PriceTable())
    rows = scenarios.collect()
    monkeypatch.setattr(evaluate, "MAX_LOCAL_PARTITIONS", 0)
    on_workers = what_if(inputs, PriceTable())
    assert on_workers.schema == scenarios.schema == WHAT_IF
    assert sorted(map(str, on_workers.collect())) == sorted(map(str, rows))
    inputs.unpersist()
    assert len(rows) == 2 * 2 * len(CLASSIC_SCENARIOS)
    assert {row["shared_topics"] for row in rows} == {1}
    cell = {(row["group"], row["interval_start"].timestamp(), row["scenario"]): row for row in rows}
    for hour in (0, 1):
        start = BEGIN.timestamp() + hour * 3600
        assert cell["bad", start, "as_is"]["crossing_bytes"] == 4 * GB
        assert cell["bad", start, "as_is"]["interval_end"].timestamp() == start + 3600
        # Snapshots at 10:10, 10:50 and 11:10.
        covered = (50 / 60, 10 / 60)[hour]
        assert cell["bad", start, "as_is"]["hours"] == pytest.approx(covered)
        assert cell["bad", start, "rackward_range"]["crossing_bytes"] == 0
        assert cell["good", start, "as_is"]["local_bytes"] == 4 * GB

    ranked = ranking(scenarios)
    assert ranked.schema.names == RANKING.names
    rows = ranked.orderBy("rank").collect()
    assert [(row["rank"], row["group"], row["scenario"]) for row in rows] == [
        (1, "bad", "rackward_range"),
        (2, "bad", "rackward_range"),
        (3, "good", "as_is"),
        (4, "good", "as_is"),
    ]
    first = rows[0]
    # The second hour has the same bytes in the ten minutes that snapshots cover.
    assert first["interval_start"].timestamp() == BEGIN.timestamp() + 3600
    assert first["saving_per_month"] == pytest.approx(4 * 0.02 * HOURS_PER_MONTH * 6)
    assert (first["locality_now"], first["locality_after"]) == (0.0, 1.0)
    assert first["unknown_now"] == 0.0
    assert first["change"] == "run rackward lead: rackward lead bad --take-over remove"


def scenario_row(group: str, scenario: str, cost: float, layout_group: str) -> dict[str, Any]:
    zero = {name: 0 for name, kind in WHAT_IF_COLUMNS.items() if kind in (INT, LONG)}
    return zero | {
        "cluster": "c",
        "group": group,
        "interval_start": BEGIN,
        "interval_end": BEGIN + timedelta(hours=1),
        "hours": 1.0,
        "layout_group": layout_group,
        "scenario": scenario,
        "assignor": "range",
        "cost": cost,
        "cost_per_month": cost,
        "mean_bytes": 0.0,
        "leader_moves": int(group == layout_group),
        "change": f"change for {scenario}",
    }


def ranked_groups(spark: SparkSession, rows: list[dict[str, Any]]) -> dict[str, Row]:
    """Return the rows of the ranking by group."""
    table = pa.Table.from_pylist(rows, columns_schema(WHAT_IF_COLUMNS))
    return {row["group"]: row for row in ranking(spark.createDataFrame(table, WHAT_IF)).collect()}


def test_localities_are_shares_of_all_bytes(spark: SparkSession) -> None:
    sizes = {"local_bytes": 20, "crossing_bytes": 30, "unknown_bytes": 50}
    nothing = {"unknown_bytes": 50}
    rows = [scenario_row("g", "as_is", 1.0, "g") | sizes]
    rows.append(scenario_row("h", "as_is", 0.0, "h") | nothing)
    ranked = ranked_groups(spark, rows)
    assert (ranked["g"]["locality_now"], ranked["g"]["unknown_now"]) == (0.2, 0.5)
    assert (ranked["h"]["locality_now"], ranked["h"]["unknown_now"]) == (None, 1.0)


def test_leader_layout_is_for_all_sharing_groups_or_none(
    spark: SparkSession,
) -> None:
    costs = {
        # A layout saves 900 for g at the expense of h.
        ("g", "g"): {"as_is": 1000.0, "rackward_after_leader_layout": 100.0},
        ("h", "g"): {"as_is": 100.0, "rackward_after_leader_layout": 150.0},
        # It would cost y more than it saves for x.
        ("x", "x"): {"as_is": 50.0, "rackward_range": 40.0, "rackward_after_leader_layout": 0.0},
        ("y", "x"): {"as_is": 10.0, "rackward_after_leader_layout": 200.0},
        # Brokers assign z and d: the former shares topics with a group that they do not assign.
        ("v", "v"): {"as_is": 10.0, "rackward_after_leader_layout": 9.0},
        ("z", "v"): {"as_is": 10.0, "leader_layout": 1.0},
        ("d", "d"): {"as_is": 10.0, "leader_layout": 1.0},
    }
    rows = [
        scenario_row(group, scenario, cost, first)
        for (group, first), of_group in costs.items()
        for scenario, cost in of_group.items()
    ]
    ranked = ranked_groups(spark, rows)
    saved = {name: (row["scenario"], row["saving_per_month"]) for name, row in ranked.items()}
    assert saved == {
        "g": ("rackward_after_leader_layout", 900.0),
        "h": ("rackward_after_leader_layout", -50.0),
        "x": ("rackward_range", 10.0),
        "y": ("as_is", 0.0),
        "v": ("rackward_after_leader_layout", 1.0),
        "z": ("leader_layout", 9.0),
        "d": ("leader_layout", 9.0),
    }
    assert all(row["change"] == f"change for {row['scenario']}" for row in ranked.values())


def test_producers_by_hand(spark: SparkSession) -> None:
    # t: 100 GB to each of three partitions, led in a, b and c; all that is written can stay.
    # s: 10 GB to each of eight partitions, one led in a, the others in b. Of the 48 GB that are
    # written in a, 3 * 2/8 = 36 GB stay, and 12 GB cross as now; those of c cross.
    to = {("t", 0): ("a", 100), ("t", 1): ("b", 100), ("t", 2): ("c", 100), ("s", 0): ("a", 10)}
    to |= {("s", number): ("b", 10) for number in range(1, 8)}
    rows: list[tuple[Any, ...]] = [
        ("c", "produce", None, topic, partition, BEGIN, None, rack, size * GB, 0, 0)
        for (topic, partition), (rack, size) in to.items()
    ]
    rows.append(("c", "produce", None, "u", 0, BEGIN, None, None, 5 * GB, 0, 0))
    rows.append(("c", "replicate", None, "t", 0, BEGIN, "a", "b", 100 * GB, 0, 0))
    hours = spark.createDataFrame(rows, PARTITION_HOURS)
    prices = PRESETS["aws-msk"]
    hourly = priced_hours(hours, prices, parse_writers(["a=60,b=30,c=10"]))
    gap = timedelta(hours=1)
    brokers = tables(spark).brokers
    found = producers_what_if(hourly, hours, brokers, prices, Interval.HOUR, gap).persist()
    names = ("group", "scenario", "local_bytes", "crossing_bytes", "unknown_bytes", "bytes")
    values = {
        (row["group"], row["scenario"]): [row[name] / GB for name in names[2:]] + [row["cost"]]
        for row in found.collect()
    }
    assert values == {
        ("(producers)", "as_is"): [127, 253, 5, 385, pytest.approx(5.06)],
        ("(producers)", "rack_aware_producers"): [360, 20, 5, 385, pytest.approx(0.40)],
        ("(replication)", "as_is"): [0, 100, 0, 100, 0],
    }
    ranked = {row["group"]: row for row in ranking(found).collect()}
    found.unpersist()
    # Snapshots cover 50 minutes of the hour.
    now = pytest.approx(5.06 * HOURS_PER_MONTH * 60 / 50)
    assert ranked["(producers)"]["cost_per_month_now"] == now
    assert ranked["(producers)"]["scenario"] == "rack_aware_producers"
    assert "partitioner.rack.aware=true" in ranked["(producers)"]["change"]
    assert ranked["(replication)"]["scenario"] == "as_is"
