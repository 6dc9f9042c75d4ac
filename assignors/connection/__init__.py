"""Connection settings for any client, from Java's or librdkafka's properties.

Java's ``client.properties`` and librdkafka's configuration have different names for the same
settings (``ssl.truststore.location`` and ``ssl.ca.location``, ``sasl.jaas.config`` and
``sasl.username``). This package reads both, also mixed, and returns the settings for kafka-python
or for librdkafka. It imports no client library, except for OAUTHBEARER, where kafka-python gets its
tokens from an object of a class that this package provides.
"""

from assignors.connection.properties import (
    ConnectionPropertyError,
    read_properties,
    server_list,
)
from assignors.connection.settings import (
    CONNECTION_PROPERTIES,
    kafka_python_settings,
    librdkafka_settings,
)

__all__ = [
    "CONNECTION_PROPERTIES",
    "ConnectionPropertyError",
    "kafka_python_settings",
    "librdkafka_settings",
    "read_properties",
    "server_list",
]
