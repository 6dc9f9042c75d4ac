"""The queue of the group's events, and errors in confluent's form."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError
from kafka import errors as kafka_errors

from assignors.confluent.events import (
    CommitResult,
    EventQueue,
    RebalanceEvent,
    RebalanceKind,
    error_code,
    error_message,
)
from assignors.kafka_python.commits import NoCoordinatorError


class Rebalances:
    """Makes rebalance events, and records how each is finished."""

    def __init__(self) -> None:
        self.finished: list[tuple[str, bool]] = []

    def event(self, name: str) -> RebalanceEvent:
        return RebalanceEvent(
            RebalanceKind.ASSIGN, (), lambda handled: self.finished.append((name, handled))
        )


def test_events_are_in_order_and_messages_are_popped_separately() -> None:
    events, rebalances = EventQueue(), Rebalances()
    lengths: list[bool] = []
    events.on_put = lambda: lengths.append(bool(events))
    rebalance = rebalances.event("one")
    message = error_message(KafkaError.UNKNOWN_TOPIC_OR_PART, "gone", "t")
    commit = CommitResult(None, [])
    for event in (rebalance, message, commit):
        events.put(event)
    assert lengths == [True] * 3
    assert events.pop_message() is None
    assert events.pop_event() is rebalance
    assert events.pop_event() is None
    assert events.pop_message() is message
    assert events.pop_event() is commit
    assert events.pop_event() is None
    assert not events


def test_a_rebalance_is_finished_once() -> None:
    rebalances = Rebalances()
    rebalance = rebalances.event("one")
    rebalance.finish(False)
    rebalance.finish(True)
    assert rebalances.finished == [("one", False)]


def test_refused_rebalances_are_finished_and_other_events_stay() -> None:
    events, rebalances = EventQueue(), Rebalances()
    events.put(rebalances.event("current"))
    events.pop_event()
    events.put(rebalances.event("queued"))
    events.put(CommitResult(None, []))
    events.refuse_rebalances()
    events.put(rebalances.event("late"))
    assert rebalances.finished == [("queued", False), ("late", False)]
    events.accept_rebalances()
    again = rebalances.event("again")
    events.put(again)
    assert isinstance(events.pop_event(), CommitResult)
    assert events.pop_event() is again


def test_a_closed_queue_finishes_all_rebalances_and_accepts_nothing() -> None:
    events, rebalances = EventQueue(), Rebalances()
    events.put(rebalances.event("current"))
    events.pop_event()
    events.put(rebalances.event("queued"))
    events.close()
    events.put(rebalances.event("late"))
    events.put(CommitResult(None, []))
    assert rebalances.finished == [("queued", False), ("current", False), ("late", False)]
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
