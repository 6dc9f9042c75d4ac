"""Filters for kafka-python's loggers: logins and repeated errors."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.sasl import SaslAuthenticateRequest

from assignors.kafka_python import fixes
from assignors.kafka_python.fixes import REDACTED, install_log_filters

PASSWORD = b"open sesame"


@pytest.fixture(autouse=True)
def _installed() -> None:
    install_log_filters()
    install_log_filters()


def login() -> Any:
    request = SaslAuthenticateRequest(auth_bytes=b"u\0u\0" + PASSWORD, version=2)
    request.API_VERSION = 2
    return request.with_header(correlation_id=1, client_id="c") or request


@pytest.mark.parametrize("logger", ["kafka.protocol.parser", "kafka.net.connection"])
def test_logins_are_redacted(logger: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    log = logging.getLogger(logger)
    request = login()
    data = request.encode(framed=True, header=True)
    assert PASSWORD in data
    log.debug("%s Request %d: %s", "node", 1, request)
    log.debug("%s Send: %r", "node", data)
    assert PASSWORD.decode() not in caplog.text
    assert caplog.messages == [f"node Request 1: {REDACTED}", f"node Send: {REDACTED!r}"]


def test_other_records_are_unchanged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    request = MetadataRequest(topics=[], version=1)
    logging.getLogger("kafka.net.connection").debug("%s Request %d: %s", "node", 1, request)
    logging.getLogger("kafka.protocol.parser").debug("%s Send: %r", "node", b"\0\0\0\2\0\3x")
    assert "MetadataRequest" in caplog.messages[0]
    assert caplog.messages[1] == r"node Send: b'\x00\x00\x00\x02\x00\x03x'"


def test_an_error_is_logged_again_after_a_while(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    log = logging.getLogger("kafka.cluster")
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for _ in range(3):
        for topic in ("one", "two"):
            log.error("Topic %s not found in cluster metadata", topic)
        log.debug("Sleeping")
        now += 1
    assert caplog.messages.count("Topic one not found in cluster metadata") == 1
    assert caplog.messages.count("Topic two not found in cluster metadata") == 1
    assert caplog.messages.count("Sleeping") == 3
    now += fixes.REPEAT_SECONDS
    log.error("Topic %s not found in cluster metadata", "one")
    assert caplog.messages.count("Topic one not found in cluster metadata") == 2
