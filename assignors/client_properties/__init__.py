"""Connection settings as people have them, as the clients want them.

Java's ``client.properties`` and librdkafka's configuration say the same things in words of
their own (``ssl.truststore.location`` and ``ssl.ca.location``, ``sasl.jaas.config`` and
``sasl.username``). Either is read here, mixed if need be, and said again for kafka-python or
librdkafka. No client library is imported.
"""

from assignors.client_properties.errors import ConnectionPropertyError
from assignors.client_properties.kafka_python import kafka_python_settings
from assignors.client_properties.librdkafka import librdkafka_settings
from assignors.client_properties.names import CONNECTION_PROPERTIES
from assignors.client_properties.properties_file import read_properties
from assignors.client_properties.servers import server_list

__all__ = [
    "CONNECTION_PROPERTIES",
    "ConnectionPropertyError",
    "kafka_python_settings",
    "librdkafka_settings",
    "read_properties",
    "server_list",
]
