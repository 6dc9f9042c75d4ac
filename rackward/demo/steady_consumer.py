"""kafka-python's consumer with faults of 3.0.12 mended, for all strategies alike.

Those that the adapter mends for our assignors would show in the others' figures as if they
were the strategies' own: joins that never end on a busy machine, brokers that are read no more
after one of them died.

And a machine may be busy. While a heartbeat is overdue, ``KafkaConsumer.poll`` does not wait
for records but spins, which delays that heartbeat's answer further; a dozen consumers that
spin keep each other's heartbeats overdue. A pause in each empty round ends that.
"""

from __future__ import annotations

import time
from typing import Any

from kafka import KafkaConsumer

from assignors.kafka_python import harden

PAUSE_SECONDS = 0.05


class SteadyConsumer(KafkaConsumer):  # type: ignore[misc]
    """KafkaConsumer for the demo's members."""

    def __init__(self, *topics: str, **config: Any) -> None:
        super().__init__(*topics, **config)
        harden(self)

    def _poll_once(self, timer: Any, max_records: int, update_offsets: bool = True) -> Any:
        began = time.monotonic()
        records = super()._poll_once(timer, max_records, update_offsets=update_offsets)
        if not records and time.monotonic() < began + PAUSE_SECONDS:
            time.sleep(PAUSE_SECONDS)
        return records
