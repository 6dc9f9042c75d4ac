from __future__ import annotations

from confluent_kafka import KafkaError

from assignors.confluent.coordinator import unavailable


def test_what_is_there_is_no_error() -> None:
    assert unavailable(["a", "b"], ["a", "b"], ["a", "b", "c"], []) == {}


def test_a_missing_topic_is_told_of_at_the_second_answer() -> None:
    assert unavailable(["new", "old"], ["old"], [], []) == {"old": KafkaError.UNKNOWN_TOPIC_OR_PART}
    assert set(unavailable(["new", "old"], ["new", "old"], [], [])) == {"new", "old"}


def test_forbidden_topics_and_bad_names_are_told_of_at_once() -> None:
    assert unavailable(["secret", "a b", "."], [], [], ["secret"]) == {
        "secret": KafkaError.TOPIC_AUTHORIZATION_FAILED,
        "a b": KafkaError.TOPIC_EXCEPTION,
        ".": KafkaError.TOPIC_EXCEPTION,
    }
