"""The racks of producers: declared, assumed, and as rule 20 computed by DuckDB."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import duckdb
import pytest
from pyspark.sql import SparkSession

from placement_core import InvalidOptionError
from rack_traffic.pipeline import priced_hours
from rack_traffic.prices import PriceTable
from rack_traffic.schemas import PARTITION_HOURS
from rack_traffic.writers import Writers, parse_writers
from tests.support.oracles.traffic_sql import PRODUCERS, differences

BEGIN = datetime(2026, 3, 2, 10, tzinfo=UTC)


def test_shares_are_in_proportion_and_per_topic() -> None:
    writers = parse_writers(["a=60,b=30,c=10", "orders:/dc1/r=1,/dc2/r=1"])
    assert writers.shares == {
        "*": {"a": 0.6, "b": 0.3, "c": 0.1},
        "orders": {"/dc1/r": 0.5, "/dc2/r": 0.5},
    }
    assert writers.description == (
        "Producers are assumed of orders: /dc1/r 0.5, /dc2/r 0.5; of others: a 0.6, b 0.3, c 0.1"
    )
    assert "equal parts" in Writers().description


@pytest.mark.parametrize("text", ["", "a", "a=x", "=1", "a=-1", "a=inf", "a=0", "t:", "t:a=nan"])
def test_invalid_shares_are_one_line(text: str) -> None:
    with pytest.raises(InvalidOptionError, match="--writers"):
        parse_writers([text])


@pytest.mark.parametrize("texts", [[], ["a=60,b=30,c=10"], ["t1:a=1,d=2"]])
def test_produced_bytes_equal_those_of_duckdb(spark: SparkSession, texts: list[str]) -> None:
    rng = Random(3)
    rows = []
    for number in range(300):
        kind = rng.choice(["consume", "produce", "produce", "replicate"])
        rows.append(
            (
                *(rng.choice("xy"), kind, "g" if kind == "consume" else None),
                *(rng.choice(["t1", "t2"]), number % 7, BEGIN + timedelta(hours=number % 5)),
                None if kind == "produce" else rng.choice("abc"),
                rng.choice(["a", "b", "c", None]),
                *(rng.randrange(10 ** rng.randrange(1, 13)), 0, rng.randrange(5)),
            )
        )
    hours = spark.createDataFrame(rows, PARTITION_HOURS)
    writers = parse_writers(texts)
    keys = "cluster, topic, from_rack, to_rack, hour, source, bytes, unsized_offsets"
    in_seconds = keys.replace("hour", "epoch(hour)::BIGINT")
    with duckdb.connect() as database:
        database.register("partition_hours", hours.toArrow())
        database.execute("CREATE TABLE writers (topic text, rack text, low double, high double)")
        for topic, shares in writers.shares.items():
            for at, rack in enumerate(shares):
                low, high = sum([*shares.values()][:at]), sum([*shares.values()][: at + 1])
                database.execute(
                    "INSERT INTO writers VALUES (?, ?, ?, ?)", [topic, rack, low, high]
                )
        expected = database.execute(f"SELECT {in_seconds} FROM ({PRODUCERS})").fetchall()
    priced = priced_hours(hours, PriceTable(), writers).filter("kind = 'produce'")
    computed = [tuple(row) for row in priced.selectExpr(*keys.split(", ")).collect()]
    assert not differences(computed, expected)
    assert sum(row[6] for row in expected) == sum(each[8] for each in rows if each[1] == "produce")
