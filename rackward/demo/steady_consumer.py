"""kafka-python's consumer with two faults of 3.0.12 mended, for all strategies alike.

A broker may die under it. ``KafkaConnectionManager.send`` raises where the broker is absent
from the latest metadata (`UnknownBrokerIdError`), as it is for a moment after its death.
The fetcher has by then marked the request as pending and never clears the mark: the
consumer stops reading from that broker for good. Answered with a failed future that may
be retried, it goes on.

A machine may be busy. While a heartbeat is overdue, ``KafkaConsumer.poll`` does not wait
for records but spins, which delays that heartbeat's answer further; a dozen consumers that
spin keep each other's heartbeats overdue. A pause in each empty round ends that.
"""

from __future__ import annotations

import time
from typing import Any

from kafka import KafkaConsumer
from kafka.errors import NodeNotReadyError, UnknownBrokerIdError
from kafka.future import Future
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

PAUSE_SECONDS = 0.05


class SteadyConsumer(KafkaConsumer):  # type: ignore[misc]
    """KafkaConsumer for the demo's members."""

    def __init__(self, *topics: str, **config: Any) -> None:
        super().__init__(*topics, kafka_client=_client, **config)

    def _poll_once(self, timer: Any, max_records: int, update_offsets: bool = True) -> Any:
        began = time.monotonic()
        records = super()._poll_once(timer, max_records, update_offsets=update_offsets)
        if not records and time.monotonic() < began + PAUSE_SECONDS:
            time.sleep(PAUSE_SECONDS)
        return records


class _SteadyManager(KafkaConnectionManager):  # type: ignore[misc]
    def send(self, request: Any, node_id: Any = None, request_timeout_ms: Any = None) -> Any:
        try:
            return super().send(request, node_id=node_id, request_timeout_ms=request_timeout_ms)
        except UnknownBrokerIdError:
            self.cluster.request_update()
            return Future().failure(NodeNotReadyError(node_id))


def _client(**config: Any) -> Any:
    selector = NetworkSelector(**config)
    return KafkaNetClient(net=selector, manager=_SteadyManager(selector, **config), **config)
