"""Reads broker metrics over HTTP from the Jolokia agent that each broker JVM loads."""

from __future__ import annotations

import http.client
import json
import re
from collections import Counter
from contextlib import closing
from typing import Any

RUNNING = 3
"""Value of the BrokerState metric of a broker that serves; its ports open long before."""

READ_TIMEOUT = 30.0
"""Seconds. An agent that has exited refuses at once, so only a busy broker takes long."""

_LISTENER = re.compile(r"listener=([^,]+)")


def agent_option(jar: str, host: str, port: int) -> str:
    """Return the JVM option that loads the agent, without multicast discovery."""
    return f"-javaagent:{jar}=host={host},port={port},discoveryEnabled=false"


def broker_state(port: int, timeout: float = 1.0) -> int | None:
    """Return the BrokerState metric, or None while no broker answers at 127.0.0.1:``port``."""
    try:
        value = _read(port, "kafka.server:type=KafkaServer,name=BrokerState", "Value", timeout)
    except (OSError, http.client.HTTPException, ValueError):
        return None
    return value if isinstance(value, int) else None


def applied_offset(port: int, timeout: float = READ_TIMEOUT) -> int:
    """Return the offset of the last record of the metadata log that the broker has applied.

    Return -1 if the broker has no such metric. Raises like `bytes_in`.
    """
    mbean = "kafka.server:type=broker-metadata-metrics"
    value = _read(port, mbean, "last-applied-record-offset", timeout)
    return int(value) if isinstance(value, int | float) else -1


def bytes_in(port: int, timeout: float = READ_TIMEOUT) -> dict[str, int]:
    """Return, by listener name, the bytes that the broker has received since its start.

    Raises OSError or http.client.HTTPException if the broker does not answer.
    """
    return _by_listener(port, "incoming-byte-total", timeout)


def bytes_out(port: int, timeout: float = READ_TIMEOUT) -> dict[str, int]:
    """Return, by listener name, the bytes that the broker has sent since its start.

    Raises like `bytes_in`.
    """
    return _by_listener(port, "outgoing-byte-total", timeout)


def _by_listener(port: int, attribute: str, timeout: float) -> dict[str, int]:
    mbean = "kafka.server:type=socket-server-metrics,listener=*,networkProcessor=*"
    by_processor = _read(port, mbean, attribute, timeout)
    total: Counter[str] = Counter()
    for name, values in (by_processor if isinstance(by_processor, dict) else {}).items():
        if listener := _LISTENER.search(name):
            total[listener.group(1)] += int(values[attribute])
    return dict(total)


def _read(port: int, mbean: str, attribute: str, timeout: float) -> Any:
    """Return the attribute's value (for a pattern: values by MBean name), None without one."""
    request = {"type": "read", "mbean": mbean, "attribute": attribute}
    # http.client ignores proxy variables, as it should: the agent is on this machine.
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)) as connection:
        connection.request("POST", "/jolokia/", json.dumps(request))
        response = json.loads(connection.getresponse().read())
    return response.get("value") if isinstance(response, dict) else None
