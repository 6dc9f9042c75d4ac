"""What goes wrong in the group, in confluent's words."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message
from kafka import errors as kafka_errors

from assignors.kafka_python.commit_queue import NoCoordinatorError

_LOCAL = (
    (NoCoordinatorError, "_WAIT_COORD"),
    (kafka_errors.Cancelled, "_DESTROY"),
    (kafka_errors.KafkaTimeoutError, "_TIMED_OUT"),
    (kafka_errors.SaslAuthenticationFailedError, "_AUTHENTICATION"),
    (kafka_errors.UnsupportedVersionError, "_UNSUPPORTED_FEATURE"),
    (kafka_errors.KafkaConnectionError, "_TRANSPORT"),
    (kafka_errors.NodeNotReadyError, "_TRANSPORT"),
)


class CommitError(Exception):
    """A commit that no broker answered; ``code`` is confluent's."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def failure(code: int, doing: str = "") -> KafkaException:
    """The exception that confluent raises where ``doing`` fails with ``code``."""
    told = KafkaError(code).str()
    return KafkaException(KafkaError(code, f"{doing}: {told}" if doing else told))


def invalid(problem: str) -> KafkaException:
    """The exception that confluent raises over a property that it does not take."""
    return KafkaException(KafkaError(KafkaError._INVALID_ARG, problem))


def code_of(error: BaseException) -> int:
    """The code under which confluent knows an error of kafka-python."""
    for kind, name in _LOCAL:
        if isinstance(error, kind):
            return int(getattr(KafkaError, name))
    number = getattr(error, "errno", None)
    return number if isinstance(number, int) and number > 0 else KafkaError._FAIL


def error_message(code: int, reason: str, topic: str | None = None) -> Message:
    """What ``poll`` returns to tell of an error that concerns the group, not a record."""
    settings: dict[str, Any] = {"error": KafkaError(code, reason), "value": reason.encode()}
    if topic is not None:
        settings["topic"] = topic
    return Message(**settings)
