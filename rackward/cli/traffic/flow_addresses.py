"""The file of ``--flow-addresses``: what addresses in flow records mean that no snapshot has.

    brokers:
      203.0.113.7:9092: prod/1
      203.0.113.8: prod/2
    racks: {10.1.0.0/16: use1-az1, 10.2.0.0/16: use1-az2}

``brokers`` are addresses of load balancers or NAT that lead to a broker, with or without a port;
``racks`` are those of clients by address or network. The same in JSON or TOML.
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from placement_core import InvalidOptionError
from rack_traffic.options import Endpoints
from rackward.config_files import convert, load
from rackward.groups.host_racks import HostRacks


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    brokers: Annotated[
        dict[Any, Any], Meta(description="addresses or ADDRESS:PORT, each with CLUSTER/BROKER")
    ] = {}
    racks: Annotated[
        dict[Any, Any], Meta(description="addresses or networks, each with its rack")
    ] = {}


def read_flow_addresses(path: Path) -> tuple[Endpoints, HostRacks]:
    """Return the endpoints of brokers, and the racks of clients.

    Raises ConfigError and InvalidOptionError, which name the file.
    """
    document = convert(load(path), _Document, str(path))
    brokers = {
        _endpoint(str(key), path): _broker(key, value, path)
        for key, value in document.brokers.items()
    }
    return brokers, HostRacks.parse(document.racks, str(path))


def _endpoint(text: str, path: Path) -> tuple[str, int | None]:
    match = re.fullmatch(r"\[([^\]]*)\](?::(\d+))?|([^:]*):(\d+)|(.*)", text)
    assert match is not None
    address, port = match[1] or match[3] or match[5] or "", match[2] or match[4]
    try:
        number = None if port is None else int(port)
        return str(ipaddress.ip_address(address)), number
    except ValueError:
        raise InvalidOptionError(
            f"{path}: {text!r} is not an address or ADDRESS:PORT of a broker"
        ) from None


def _broker(key: object, value: object, path: Path) -> tuple[str, int]:
    cluster, _, broker = str(value).rpartition("/")
    if not cluster or not broker.isdecimal():
        raise InvalidOptionError(f"{path}: {key!r} has {value!r}: give CLUSTER/BROKER")
    return cluster, int(broker)
