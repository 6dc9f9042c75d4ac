from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_core import InvalidOptionError
from rackward.units import bytes_text, count_text, read_bytes, seconds_text


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
def test_bytes_are_read_in_thousands_and_in_1024s(text: str, count: int) -> None:
    assert read_bytes("--throttle", text) == count
    assert read_bytes("--throttle", f"{text}/s", rate=True) == count


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "5 apples", "MB", "1e9", "0.1", "5MB/s", "9999999TB"]
)
def test_what_is_no_number_of_bytes_is_refused_with_the_option(text: str) -> None:
    with pytest.raises(InvalidOptionError, match=r"^--batch-bytes "):
        read_bytes("--batch-bytes", text)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (1234, "1.23 kB"),
        (99_960, "100 kB"),
        (999_600, "1 MB"),
        (5 * 10**15, "5 PB"),
        (9 * 10**18, "9000 PB"),
    ],
)
def test_bytes_are_written_in_three_digits(count: int, text: str) -> None:
    assert bytes_text(count) == text


@given(st.integers(1, 10**15))
def test_what_is_written_is_within_half_a_percent(count: int) -> None:
    assert read_bytes("x", bytes_text(count)) == pytest.approx(count, rel=0.005)


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
def test_seconds_are_written_in_two_steps(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


def test_counts_have_their_plural() -> None:
    assert count_text(1, "partition") == "1 partition"
    assert count_text(2000, "partition") == "2,000 partitions"
    assert count_text(0, "copy") == "0 copies"
