"""Exact bytes that a consumer fetched, per partition and rack, told to a topic by the consumer.

Opt-in: the pipeline estimates traffic from committed offsets, and where a member reports, its
figures replace the estimates. Here is what knows no client library; the edge that counts a
KafkaConsumer's fetches and sends is :class:`assignors.kafka_python.TrafficReporter`.
"""

from assignors.reports.message import report_messages
from assignors.reports.tally import Place, Report, Tally

__all__ = ["Place", "Report", "Tally", "report_messages"]
