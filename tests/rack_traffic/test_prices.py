"""Prices by rule: of pairs of racks, of tables, from files, and of plug-ins."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from placement_core import InvalidOptionError
from rack_traffic.errors import PriceTableError
from rack_traffic.pipeline import priced_hours
from rack_traffic.prices import (
    GB,
    PRESETS,
    PriceRule,
    PriceTable,
    crossed_level,
    load_prices,
    read_prices,
)
from rack_traffic.schemas import HOURLY, PARTITION_HOURS
from rack_traffic.writers import Writers
from tests.support.traffic_frames import assert_frames_equal

HOUR = datetime(2026, 3, 2, 10, tzinfo=UTC)
LEVELS = PriceTable(
    (
        PriceRule(0.02),
        PriceRule(0.08, level=1),
        PriceRule(0.01, level=2),
        PriceRule(0.05, from_rack="/dc1", to_rack="/dc2"),
        PriceRule(0.03, from_rack="/dc2", to_rack="/dc1", both_directions=False),
        PriceRule(0.5, cluster="expensive"),
        PriceRule(0.07, cluster="expensive", level=1),
        PriceRule(0.0, from_rack="a", to_rack="b"),
    )
)


@pytest.mark.parametrize(
    ("one", "other", "level"),
    [
        ("a", "a", 0),
        ("a", "b", 1),
        ("a", "/a", 0),
        ("/dc1/r1", "/dc1/r2", 2),
        ("/dc1/r1", "/dc2/r1", 1),
        ("/dc1", "/dc1/r1", 2),
        ("/dc1/r1/", "/dc1//r1", 0),
        (None, "a", None),
        ("", "a", None),
        (None, None, None),
    ],
)
def test_levels(one: str | None, other: str | None, level: int | None) -> None:
    assert crossed_level(one, other) == crossed_level(other, one) == level


def test_the_default_is_two_cents_between_racks_and_0_within() -> None:
    default = PriceTable()
    assert default.price("c", "a", "b") == 0.02
    assert default.price("c", "/dc1/r1", "/dc1/r2") == 0.02
    assert default.price("c", "a", "a") == 0.0
    assert default.price("c", None, "a") is None


def test_the_most_specific_rule_applies() -> None:
    assert LEVELS.price("c", "x", "y") == 0.08
    assert LEVELS.price("c", "/dc1/r1", "/dc1/r2") == 0.01
    assert LEVELS.price("c", "/dc1/r1", "/dc2/r1") == 0.05
    assert LEVELS.price("c", "/dc2/r1", "/dc1/r1") == 0.03
    assert LEVELS.price("c", "b", "a") == 0.0
    assert LEVELS.price("expensive", "/dc3", "/dc4") == 0.07
    assert LEVELS.price("expensive", "/dc3/x", "/dc3/y") == 0.01
    assert PriceTable((PriceRule(1.0, level=2),)).price("c", "a", "b") == 0.0


def test_a_rule_with_a_kind_applies_before_racks() -> None:
    table = PriceTable((PriceRule(0.0, kind="replicate"), PriceRule(0.5, from_rack="/dc1")))
    assert table.price("c", "/dc1/a", "/dc2/a") == 0.5
    assert table.price("c", "/dc1/a", "/dc2/a", "replicate") == 0.0
    with pytest.raises(PriceTableError, match="kind is 'read'"):
        PriceRule(0.1, kind="read")


@pytest.mark.parametrize(
    ("name", "consume", "replicate"),
    [("aws", 0.02, 0.02), ("aws-msk", 0.02, 0.0), ("gcp", 0.01, 0.01), ("azure", 0.0, 0.0)],
)
def test_presets_have_a_source(name: str, consume: float, replicate: float) -> None:
    table = load_prices(name)
    assert table is PRESETS[name]
    prices = [table.price("c", "a", "b", kind) for kind in ("consume", "produce", "replicate")]
    assert prices == [consume, consume, replicate]
    assert "2026-11-26" in table.source


def test_hourly_adds_up_partitions_and_prices_pairs(spark: SparkSession) -> None:
    hours = spark.createDataFrame(
        [
            ("c", "consume", "g", "t", 0, HOUR, "/x/a", "/x/b", GB, GB, 0),
            ("c", "consume", "g", "t", 1, HOUR, "/x/a", "/x/b", 2 * GB, 0, 3),
            ("c", "consume", "g", "t", 0, HOUR, "/x/a", "/x/a", GB, 0, 0),
            ("c", "consume", "g", "t", 0, HOUR, "/x/a", "/y/a", GB, 0, 0),
            ("c", "produce", None, "t", 0, HOUR, None, "/x/a", GB, 0, 0),
        ],
        PARTITION_HOURS,
    )
    prices = PriceTable((PriceRule(0.5), PriceRule(0.25, level=2)))
    expected = spark.createDataFrame(
        [
            (*("c", "consume", "g", "t", "/x/a", "/x/b", HOUR, "estimated"),
                *(2, 3 * GB, GB, 3, 0.25, 0.75)),
            ("c", "consume", "g", "t", "/x/a", "/x/a", HOUR, "estimated", 0, GB, 0, 0, 0.0, 0.0),
            ("c", "consume", "g", "t", "/x/a", "/y/a", HOUR, "estimated", 1, GB, 0, 0, 0.5, 0.5),
            ("c", "produce", None, "t", "/x/a", "/x/a", HOUR, "assumed", 0, GB, 0, 0, 0.0, 0.0),
        ],
        HOURLY,
    )  # fmt: skip
    assert_frames_equal(priced_hours(hours, prices, Writers()), expected)
    no_rack = hours.filter("from_rack is null").withColumn("to_rack", F.lit(None).cast("string"))
    only_unknown = priced_hours(no_rack, prices, Writers())
    assert [row["cost"] for row in only_unknown.collect()] == [None]


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_text("per_gb,level,from_rack,both_directions\n0.02,,,\n0.01,2,/dc1,false\n")
    assert read_prices(file).rules == (
        PriceRule(0.02),
        PriceRule(0.01, level=2, from_rack="/dc1", both_directions=False),
    )
    file = tmp_path / "prices.json"
    file.write_text('[{"per_gb": 0.5, "cluster": "c", "both_directions": true}]')
    assert read_prices(file).rules == (PriceRule(0.5, cluster="c"),)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("p.csv", "per_gb,lvl\n1,2\n", "rule 1 has unknown fields ['lvl']"),
        ("p.csv", "level\n2\n", "rule 1 has no per_gb"),
        ("p.csv", "per_gb\n-1\n", "per_gb is -1.0"),
        ("p.csv", "per_gb\nnan\n", "per_gb is nan"),
        ("p.csv", "per_gb\ncheap\n", "rule 1: could not convert"),
        ("p.csv", "per_gb,level\n1,0\n", "level is 0"),
        ("p.csv", "per_gb,both_directions\n1,perhaps\n", "both_directions is 'perhaps'"),
        ("p.csv", "", "has no rule"),
        ("p.json", "{}", "must be a list of rules"),
        ("p.json", "[", "is not valid JSON"),
        ("absent.csv", None, "cannot read prices from"),
    ],
)
def test_invalid_files(tmp_path: Path, name: str, text: str | None, message: str) -> None:
    file = tmp_path / name
    if text is not None:
        file.write_text(text)
    with pytest.raises(PriceTableError) as caught:
        read_prices(file)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


class ReturnsNumber:
    def price_table(self) -> float:
        return 0.02


class Raises:
    def __init__(self, text: str = "no contract") -> None:
        self._text = text

    def price_table(self) -> PriceTable:
        raise OSError(self._text)


@pytest.mark.parametrize(
    ("name", "properties", "message"),
    [
        ("ReturnsNumber", {}, "returned float: return a PriceTable"),
        ("Raises", {}, "failed with OSError: no contract"),
        ("Raises", {"text": "gone"}, "failed with OSError: gone"),
        ("Raises", {"unknown": "x"}, "cannot be made from the properties unknown: TypeError"),
        ("PriceRule", {"per_gb": "x"}, "cannot be made from the properties per_gb"),
        ("PriceTable", {}, "has no method price_table"),
    ],
)
def test_faults_of_a_plugin(name: str, properties: dict[str, str], message: str) -> None:
    with pytest.raises((PriceTableError, InvalidOptionError)) as caught:
        load_prices(f"{__name__}:{name}", properties)
    assert message in str(caught.value)
    assert f"{__name__}:{name}" in str(caught.value)


def test_a_file_has_no_properties(tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_text("per_gb\n0.5\n")
    assert load_prices(str(file)).rules == (PriceRule(0.5),)
    with pytest.raises(InvalidOptionError, match="has no properties"):
        load_prices(str(file), {"discount": "1"})
