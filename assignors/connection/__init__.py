"""Connection settings as people have them, as the clients want them.

Java's ``client.properties`` and librdkafka's configuration say the same things in words of
their own (``ssl.truststore.location`` and ``ssl.ca.location``, ``sasl.jaas.config`` and
``sasl.username``). Either is read here, mixed if need be, and said again for kafka-python or
librdkafka. No client library is imported.
"""

from assignors.connection.kafka_python import kafka_python_settings
from assignors.connection.librdkafka import librdkafka_settings
from assignors.connection.properties import (
    CONNECTION_PROPERTIES,
    ConnectionPropertyError,
    read_properties,
    server_list,
)

__all__ = [
    "CONNECTION_PROPERTIES",
    "ConnectionPropertyError",
    "kafka_python_settings",
    "librdkafka_settings",
    "read_properties",
    "server_list",
]
