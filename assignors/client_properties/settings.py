"""Everything that the properties say of a connection, in one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from assignors.client_properties.certificates import Tls, read_tls
from assignors.client_properties.credentials import Credentials, read_credentials
from assignors.client_properties.names import check_names
from assignors.client_properties.reading import Reading
from assignors.client_properties.servers import server_list

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_SERVERS = ("bootstrap.servers", "metadata.broker.list")


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """``servers`` is empty where none is given; ``tls`` and ``credentials`` are None where
    ``protocol`` does not ask for them, whatever else the properties say."""

    servers: tuple[str, ...]
    client_id: str | None
    protocol: str
    tls: Tls | None
    credentials: Credentials | None


def read_settings(properties: Mapping[str, object]) -> ConnectionSettings:
    """The settings. Raises ConnectionPropertyError."""
    check_names(properties)
    reading = Reading(properties)
    protocol = reading.choice("security.protocol", PROTOCOLS) or "PLAINTEXT"
    name = reading.name(*_SERVERS)
    return ConnectionSettings(
        servers=() if name is None else server_list(reading.text(name) or "", name),
        client_id=reading.text("client.id"),
        protocol=protocol,
        tls=read_tls(reading) if protocol.endswith("SSL") else None,
        credentials=read_credentials(reading) if protocol.startswith("SASL_") else None,
    )
