"""Formats of numbers and names on the page."""

from __future__ import annotations

import pytest

from rack_traffic.report.format import Currency, bytes_text, count, cut_middle, percent


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (9_994, "9.99 kB"),
        (9_996, "10.0 kB"),
        (99_960, "100 kB"),
        (999_499, "999 kB"),
        (999_500, "1.00 MB"),
        (1_234_567_890, "1.23 GB"),
        (5 * 10**21, "5,000 EB"),
    ],
)
def test_bytes_have_three_digits(size: int, text: str) -> None:
    assert bytes_text(size) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "$0.00"),
        (0.004, "<$0.01"),
        (0.005, "$0.01"),
        (99.99, "$99.99"),
        (99.996, "$100"),
        (12_345.6, "$12,346"),
        (999_499, "$999,499"),
        (1_250_000, "$1.25 M"),
        (-3, "-$3.00"),
    ],
)
def test_amounts_from_100_have_no_cents(amount: float, text: str) -> None:
    assert Currency("$").text(amount) == text


def test_a_currency_code_is_followed_by_a_space() -> None:
    assert Currency("EUR").text(5) == "EUR 5.00"
    assert Currency("€").text(5) == "€5.00"


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (None, "\N{EN DASH}"),
        (0, "0 %"),
        (0.0001, "<0.1 %"),
        (0.123, "12.3 %"),
        (0.9999, ">99.9 %"),
        (1, "100 %"),
    ],
)
def test_shares_are_not_rounded_to_0_or_100_percent(part: float | None, text: str) -> None:
    assert percent(part) == text


def test_long_names_are_cut_in_the_middle() -> None:
    assert cut_middle("abcdefghij", 10) == "abcdefghij"
    assert cut_middle("abcdefghijk", 10) == "abcd…ghijk"
    assert len(cut_middle("x" * 100, 9)) == 9


def test_count_forms_the_plural() -> None:
    assert [count(1, "group"), count(2, "group"), count(1200, "was", "were")] == [
        "1 group",
        "2 groups",
        "1,200 were",
    ]
