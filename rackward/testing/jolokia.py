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

BYTES_IN, BYTES_OUT = "incoming-byte-total", "outgoing-byte-total"
"""What listeners have received and sent."""

_LISTENER = re.compile(r"listener=([^,]+)")


def agent_option(jar: str, host: str, port: int) -> str:
    """Return the JVM option that loads the agent, without multicast discovery."""
    return f"-javaagent:{jar}=host={host},port={port},discoveryEnabled=false"


def broker_state(port: int) -> int | None:
    """Return the BrokerState metric, or None while no broker answers at 127.0.0.1:``port``."""
    try:
        value = read(port, "kafka.server:type=KafkaServer,name=BrokerState", "Value", timeout=1.0)
    except (OSError, http.client.HTTPException, ValueError):
        return None
    return value if isinstance(value, int) else None


def applied_offset(port: int) -> int:
    """Return the offset of the last record of the metadata log that the broker has applied.

    Return -1 if the broker has no such metric. Raises like `read`.
    """
    value = read(port, "kafka.server:type=broker-metadata-metrics", "last-applied-record-offset")
    return int(value) if isinstance(value, int | float) else -1


def bytes_by_listener(port: int, attribute: str) -> dict[str, int]:
    """Return BYTES_IN or BYTES_OUT since the broker's start, by listener name. Raises as `read`."""
    mbean = "kafka.server:type=socket-server-metrics,listener=*,networkProcessor=*"
    by_processor = read(port, mbean, attribute)
    total: Counter[str] = Counter()
    for name, values in (by_processor if isinstance(by_processor, dict) else {}).items():
        if listener := _LISTENER.search(name):
            total[listener.group(1)] += int(values[attribute])
    return dict(total)


def read(port: int, mbean: str, attribute: str, timeout: float = 30.0) -> Any:
    """Return the attribute's value (for a pattern: values by MBean name), None without one.

    An agent that has exited refuses at once, so only a busy broker takes long. Raises OSError or
    http.client.HTTPException if the broker does not answer.
    """
    request = {"type": "read", "mbean": mbean, "attribute": attribute}
    # http.client ignores proxy variables, as it should: the agent is on this machine.
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)) as connection:
        connection.request("POST", "/jolokia/", json.dumps(request))
        response = json.loads(connection.getresponse().read())
    return response.get("value") if isinstance(response, dict) else None
