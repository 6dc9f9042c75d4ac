"""Every private part of confluent-kafka that this package relies on, in one table.

Those of kafka-python, which joins the group, are in `assignors.kafka_python.internals`.
"""

from __future__ import annotations

import contextvars
import sys
from functools import cache

import confluent_kafka
from confluent_kafka import cimpl

from assignors.kafka_python.internals import SUPPORTED as KAFKA_PYTHON
from assignors.kafka_python.internals import check_kafka_python
from assignors.library_internals import (
    Internals,
    UnsupportedClientError,
    check_internals,
    unsupported_import,
)

try:
    from kafka.coordinator.base import BaseCoordinator
    from kafka.net.selector import NetworkSelector
except ImportError as error:
    raise unsupported_import(error, KAFKA_PYTHON) from error

SUPPORTED = "confluent-kafka>=2.12,<3"

_GIL_ENABLED: bool = getattr(sys, "_is_gil_enabled", lambda: True)()
VERSION = tuple(map(int, str(confluent_kafka.__version__).split(".")[:2]))

INTERNALS: Internals = {
    # Identifies the caller of a consumer's methods. There is none before 2.16, nor in builds for a
    # Python without the GIL: these do not keep threads out of a consumer.
    cimpl: ["_reentry_identity_var"] if _GIL_ENABLED and VERSION >= (2, 16) else [],
}
"""What is read or assigned; see `assignors.library_internals`."""

KAFKA_PYTHON_INTERNALS: Internals = {
    BaseCoordinator: ["_handle_heartbeat_response(self, response, send_time)"],
    NetworkSelector: [
        "__init__(self, configs)",
        "cancel(self, task)",
        "call_later(self, delay, task)",
        "call_soon_threadsafe(self, callback)",
        "run(self, coro, args)",
        "run_forever(self)",
        "sleep(self, delay)",
        "start(self)",
    ],
}
"""The same of kafka-python: what only this package uses, besides the common table."""

AIO_CONSUMER = ["__init__(self, consumer_conf, max_workers, executor)", "self._consumer"]
"""The same of confluent's AIOConsumer, which constructs its consumer from the dictionary that it is
given, and calls the attribute."""

REENTRY_IDENTITY: contextvars.ContextVar[int] | None = (
    getattr(cimpl, "_reentry_identity_var", None) if _GIL_ENABLED else None
)
"""confluent's variable for the identity of the caller; None if this build has none."""

GROUP_METADATA_MAGIC = b"CGMDv2:"
"""The first bytes of librdkafka's group metadata, which name the version of its format."""


@cache
def check_clients() -> None:
    """Raise UnsupportedClientError if confluent-kafka or kafka-python lacks an internal."""
    check_internals(INTERNALS, SUPPORTED)
    check_kafka_python()
    check_internals(KAFKA_PYTHON_INTERNALS, KAFKA_PYTHON)


def check_aio_consumer(consumer_class: type) -> None:
    """Raise UnsupportedClientError if confluent's AIOConsumer lacks an internal."""
    check_clients()
    check_internals({consumer_class: AIO_CONSUMER}, SUPPORTED)


def check_group_metadata(metadata: bytes) -> None:
    """Raise UnsupportedClientError unless librdkafka's group metadata has the expected format."""
    if not metadata.startswith(GROUP_METADATA_MAGIC):
        raise UnsupportedClientError(
            f"the group metadata of librdkafka {confluent_kafka.libversion()[0]} begins with"
            f" {metadata[:8]!r}, and rackward writes {GROUP_METADATA_MAGIC!r}: install"
            f" '{SUPPORTED}', or a release of rackward that supports"
            f" confluent-kafka {confluent_kafka.__version__}"
        )
