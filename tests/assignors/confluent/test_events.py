from __future__ import annotations

from confluent_kafka import KafkaError

from assignors.confluent.errors import error_message
from assignors.confluent.events import Change, Committed, Inbox, Step


class Ends:
    def __init__(self) -> None:
        self.told: list[tuple[str, bool]] = []

    def step(self, name: str) -> Step:
        return Step(Change.ASSIGN, (), lambda done: self.told.append((name, done)))


def test_events_come_in_their_order_and_messages_by_themselves() -> None:
    inbox, ends = Inbox(), Ends()
    arrivals: list[bool] = []
    inbox.arrived = lambda: arrivals.append(bool(inbox))
    step = ends.step("one")
    message = error_message(KafkaError.UNKNOWN_TOPIC_OR_PART, "gone", "t")
    committed = Committed(None, [])
    for event in (step, message, committed):
        inbox.put(event)
    assert arrivals == [True] * 3
    assert inbox.take_message() is None
    assert inbox.take() is step
    assert inbox.take() is None
    assert inbox.take_message() is message
    assert inbox.take() is committed
    assert inbox.take() is None
    assert not inbox


def test_a_step_ends_once() -> None:
    ends = Ends()
    step = ends.step("one")
    step.finish(False)
    step.finish(True)
    assert ends.told == [("one", False)]


def test_steps_that_are_refused_end_undone_and_all_else_stays() -> None:
    inbox, ends = Inbox(), Ends()
    begun = ends.step("begun")
    inbox.put(begun)
    inbox.take()
    inbox.put(ends.step("waiting"))
    inbox.put(Committed(None, []))
    inbox.refuse_steps()
    inbox.put(ends.step("late"))
    assert ends.told == [("waiting", False), ("late", False)]
    inbox.accept_steps()
    again = ends.step("again")
    inbox.put(again)
    assert isinstance(inbox.take(), Committed)
    assert inbox.take() is again


def test_a_closed_inbox_ends_what_was_begun_and_takes_nothing() -> None:
    inbox, ends = Inbox(), Ends()
    inbox.put(ends.step("begun"))
    inbox.take()
    inbox.put(ends.step("waiting"))
    inbox.close()
    inbox.put(ends.step("late"))
    inbox.put(Committed(None, []))
    assert ends.told == [("waiting", False), ("begun", False), ("late", False)]
    assert not inbox


def test_an_error_of_the_group_is_a_message_as_librdkafkas_are() -> None:
    message = error_message(KafkaError._MAX_POLL_EXCEEDED, "too late")
    error = message.error()
    assert error is not None
    assert (error.code(), error.str()) == (KafkaError._MAX_POLL_EXCEEDED, "too late")
    assert (message.topic(), message.partition(), message.offset()) == (None, None, None)
    assert message.value() == b"too late"
