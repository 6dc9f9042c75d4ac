from __future__ import annotations

import pytest

from assignors.confluent.coordinator import PatternError, subscription

THERE = ["orders", "orders-eu", "Orders", "payments", "__consumer_offsets", "x1"]


def test_names_are_taken_whether_they_are_there_or_not() -> None:
    assert subscription(["orders", "later"]).topics(THERE) == {"orders", "later"}


@pytest.mark.parametrize(
    ("pattern", "topics"),
    [
        ("^orders", {"orders", "orders-eu"}),
        ("^orders$", {"orders"}),
        ("^.*s$", {"orders", "Orders", "payments", "__consumer_offsets"}),
        ("^[[:lower:]][[:digit:]]$", {"x1"}),
        ("^[^[:upper:]_].*s$", {"orders", "payments"}),
        ("^nothing", set()),
    ],
)
def test_patterns_start_where_the_name_does_and_end_anywhere(
    pattern: str, topics: set[str]
) -> None:
    assert subscription([pattern]).topics(THERE) == topics


def test_names_and_patterns_add_up() -> None:
    assert subscription(["payments", "^x"]).topics(THERE) == {"payments", "x1"}


def test_the_blacklist_is_for_patterns() -> None:
    wanted = subscription(["orders", "^.*"], ["^orders", "^__"])
    assert wanted.topics(THERE) == {"orders", "Orders", "payments", "x1"}


@pytest.mark.parametrize("pattern", ["^[a", "^(", "^*+?"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError, match="is no pattern"):
        subscription([pattern])
