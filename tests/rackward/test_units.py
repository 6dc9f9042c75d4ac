"""Parsing and formatting of bytes, durations, counts and lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_core import InvalidOptionError
from rackward.units import (
    format_brokers,
    format_bytes,
    format_count,
    format_duration,
    format_list,
    matches_name,
    parse_bytes,
)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1", 1),
        ("512B", 512),
        ("50MB", 50_000_000),
        ("50 mb", 50_000_000),
        ("50M", 50_000_000),
        ("1.5GiB", 1_610_612_736),
        ("2k", 2000),
        ("3TB", 3 * 10**12),
    ],
)
def test_parse_bytes_reads_powers_of_1000_and_1024(text: str, count: int) -> None:
    assert parse_bytes("--throttle", text) == count
    assert parse_bytes("--throttle", f"{text}/s", rate=True) == count


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "5 apples", "MB", "1e9", "0.1", "5MB/s", "9999999TB"]
)
def test_parse_bytes_names_the_option_of_an_invalid_text(text: str) -> None:
    with pytest.raises(InvalidOptionError, match=r"^--batch-bytes "):
        parse_bytes("--batch-bytes", text)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (1234, "1.23 kB"),
        (99_960, "100 kB"),
        (999_600, "1.00 MB"),
        (5 * 10**15, "5.00 PB"),
        (9 * 10**18, "9.00 EB"),
    ],
)
def test_format_bytes_has_three_digits(count: int, text: str) -> None:
    assert format_bytes(count) == text


@given(st.integers(1, 10**15))
def test_formatted_bytes_are_within_half_a_percent(count: int) -> None:
    assert parse_bytes("x", format_bytes(count)) == pytest.approx(count, rel=0.005)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (125, "2 min 5 s"),
        (7500, "2 h 5 min"),
        (1e5, "1 d 3 h"),
    ],
)
def test_format_duration_has_two_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_format_count_forms_the_plural() -> None:
    assert format_count(1, "partition") == "1 partition"
    assert format_count(2000, "partition") == "2,000 partitions"
    assert format_count(0, "copy") == "0 copies"


@pytest.mark.parametrize(
    ("brokers", "text"), [((), "no brokers"), ((3,), "broker 3"), ((3, 1, 2), "brokers 3, 1, 2")]
)
def test_format_brokers_keeps_the_order(brokers: tuple[int, ...], text: str) -> None:
    assert format_brokers(brokers) == text


def test_format_list_is_cut() -> None:
    assert format_list("abcde") == "a, b, c, d, e"
    assert format_list("abcdef") == "a, b, c, d, e, ..."


@pytest.mark.parametrize(
    ("name", "pattern", "expected"),
    [
        ("app[1]", "app[1]", True),
        ("app1", "app[1]", True),
        ("app[1]", "app*", True),
        ("app[1]", "app?1?", True),
        ("app[1]", "app", False),
    ],
)
def test_a_pattern_matches_its_own_name(name: str, pattern: str, expected: bool) -> None:
    assert matches_name(name, pattern) is expected
