"""Reading what members report to a topic of their cluster.

The position is committed once the rows are kept, and the pipeline counts a report that comes twice
once; so nothing is lost or doubled when a collector is killed, or when two read the same topic.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from assignors.client_properties import kafka_python_settings
from rackward.admin import AdminError
from rackward.admin.connection import CLIENT_ID, translated
from rackward.collector.report_rows import report_rows
from rackward.collector.snapshot import Row

GROUP = "rackward-traffic-collector"
MOST_MESSAGES = 20_000
"""How many are read at a time; the rest is for the next time."""
PATIENCE_SECONDS = 5.0


class ClientReports:
    """The reports in ``topic`` since those that were kept; a connection of its own."""

    def __init__(self, properties: Mapping[str, object], topic: str, cluster: str) -> None:
        self._properties, self._topic, self._cluster = properties, topic, cluster
        self._consumer: Any = None

    def read(self) -> tuple[list[Row], list[str]]:
        """New rows of the table client_reports, and what was set aside. Raises AdminError."""
        from kafka.errors import KafkaError

        try:
            return self._read()
        except KafkaError as error:
            self.close()
            raise translated(f"reading client reports in {self._topic}", error) from error

    def keep(self) -> None:
        """What was read is kept: do not read it again. Raises AdminError."""
        from kafka.errors import KafkaError

        try:
            if self._consumer is not None:
                self._consumer.commit()
        except KafkaError as error:
            self.close()
            raise translated(f"committing what was read of {self._topic}", error) from error

    def close(self) -> None:
        """Close the connection; again: nothing. What was not kept is read again."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close(autocommit=False)

    def _read(self) -> tuple[list[Row], list[str]]:
        consumer = self._open()
        ends = consumer.end_offsets(list(consumer.assignment()))
        deadline = time.monotonic() + PATIENCE_SECONDS
        rows: list[Row] = []
        faults: list[str] = []
        read = 0
        while read < MOST_MESSAGES and time.monotonic() < deadline:
            if all(consumer.position(place) >= end for place, end in ends.items()):
                break
            found = consumer.poll(timeout_ms=500, max_records=MOST_MESSAGES - read)
            for messages in found.values():
                for message in messages:
                    read += 1
                    good, bad = report_rows(message.value, self._cluster)
                    rows += good
                    faults += (f"topic {self._topic}: {fault}" for fault in bad)
        return rows, faults

    def _open(self) -> Any:
        if self._consumer is None:
            from kafka import KafkaConsumer, TopicPartition

            consumer = KafkaConsumer(
                **{
                    "client_id": CLIENT_ID,
                    **kafka_python_settings(self._properties),
                    "group_id": GROUP,
                    "enable_auto_commit": False,
                    "auto_offset_reset": "earliest",
                }
            )
            self._consumer = consumer
            numbers = consumer.partitions_for_topic(self._topic)
            if not numbers:
                self.close()
                raise AdminError(
                    f"there is no topic {self._topic} of client reports: create it, or leave "
                    "reports_topic out"
                )
            consumer.assign([TopicPartition(self._topic, number) for number in sorted(numbers)])
        return self._consumer
