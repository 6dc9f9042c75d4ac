"""The queue of the group's events, and errors in confluent's form."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError
from kafka import errors as kafka_errors

from assignors.confluent.events import (
    EventQueue,
    RebalanceEvent,
    RebalanceKind,
    error_code,
    error_message,
)
from assignors.kafka_python.commits import NoCoordinatorError


def rebalance() -> RebalanceEvent:
    return RebalanceEvent(RebalanceKind.ASSIGN, ())


def test_events_are_in_order_and_messages_popped_apart() -> None:
    events = EventQueue()
    lengths: list[bool] = []
    events.on_put = lambda: lengths.append(bool(events))
    first, call = rebalance(), print
    message = error_message(KafkaError.UNKNOWN_TOPIC_OR_PART, "gone", "t")
    for event in (first, message, call):
        events.put(event)
    assert lengths == [True] * 3
    assert events.pop_message() is None
    assert events.pop_event() is first
    assert events.pop_event() is None
    assert events.pop_message() is message
    assert events.pop_event() is call
    assert events.pop_event() is None
    assert not events


def test_a_rebalance_is_finished_once() -> None:
    event = rebalance()
    event.finish(False)
    event.finish(True)
    assert event.handled.result() is False


def test_refused_rebalances_are_finished_and_others_stay() -> None:
    events = EventQueue()
    current, queued, late, again = (rebalance() for _ in range(4))
    events.put(current)
    events.pop_event()
    events.put(queued)
    events.put(print)
    events.refuse_rebalances()
    events.put(late)
    assert [event.handled.done() for event in (current, queued, late)] == [False, True, True]
    events.accept_rebalances()
    events.put(again)
    assert events.pop_event() is print
    assert events.pop_event() is again


def test_a_closed_queue_finishes_all_and_accepts_nothing() -> None:
    events = EventQueue()
    current, queued, late = (rebalance() for _ in range(3))
    events.put(current)
    events.pop_event()
    events.put(queued)
    events.close()
    events.put(late)
    events.put(print)
    assert [event.handled.result(0) for event in (current, queued, late)] == [False] * 3
    assert not events


def test_an_error_message_is_like_librdkafkas() -> None:
    message = error_message(KafkaError._MAX_POLL_EXCEEDED, "too late")
    error = message.error()
    assert error is not None
    assert (error.code(), error.str()) == (KafkaError._MAX_POLL_EXCEEDED, "too late")
    assert (message.topic(), message.partition(), message.offset()) == (None, None, None)
    assert message.value() == b"too late"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NoCoordinatorError(), KafkaError._WAIT_COORD),
        (kafka_errors.Cancelled(), KafkaError._DESTROY),
        (kafka_errors.KafkaTimeoutError(), KafkaError._TIMED_OUT),
        (kafka_errors.KafkaConnectionError(), KafkaError._TRANSPORT),
        (kafka_errors.IllegalGenerationError(), KafkaError.ILLEGAL_GENERATION),
        (ValueError(), KafkaError._FAIL),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors_of_kafka_python_have_confluents_codes(error: Exception, code: int) -> None:
    assert error_code(error) == code
