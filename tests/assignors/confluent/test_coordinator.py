"""Subscriptions by name and pattern, and errors of topics."""

from __future__ import annotations

import re

import pytest
from confluent_kafka import KafkaError

from assignors.confluent.coordinator import parse_subscription, topic_errors

KNOWN = ["orders", "orders-eu", "Orders", "payments", "__consumer_offsets", "x1"]


def test_names_match_whether_the_topic_exists_or_not() -> None:
    assert parse_subscription(["orders", "later"]).topics(KNOWN) == {"orders", "later"}


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
def test_a_pattern_matches_the_beginning_of_a_name(pattern: str, topics: set[str]) -> None:
    assert parse_subscription([pattern]).topics(KNOWN) == topics


def test_names_and_patterns_are_combined() -> None:
    assert parse_subscription(["payments", "^x"]).topics(KNOWN) == {"payments", "x1"}


def test_the_blacklist_applies_to_patterns_only() -> None:
    subscription = parse_subscription(["orders", "^.*"], ["^orders", "^__"])
    assert subscription.topics(KNOWN) == {"orders", "Orders", "payments", "x1"}


@pytest.mark.parametrize("pattern", ["^[a", "^(", "^*+?"])
def test_an_invalid_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(re.error):
        parse_subscription([pattern])


def test_existing_topics_have_no_errors() -> None:
    names = ["a", "b"]
    assert topic_errors(names, names, known=["a", "b", "c"], unauthorized=[]) == {}


def test_a_missing_topic_is_an_error_from_the_second_response_on() -> None:
    missing = KafkaError.UNKNOWN_TOPIC_OR_PART
    names = ["new", "old"]
    assert topic_errors(names, ["old"], known=[], unauthorized=[]) == {"old": missing}
    assert set(topic_errors(names, names, known=[], unauthorized=[])) == {"new", "old"}


def test_unauthorized_topics_and_invalid_names_fail_at_once() -> None:
    names = ["secret", "a b", "."]
    assert topic_errors(names, [], known=[], unauthorized=["secret"]) == {
        "secret": KafkaError.TOPIC_AUTHORIZATION_FAILED,
        "a b": KafkaError.TOPIC_EXCEPTION,
        ".": KafkaError.TOPIC_EXCEPTION,
    }
