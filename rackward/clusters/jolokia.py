"""What a broker tells of itself over HTTP, through the Jolokia agent that it was started with."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Mapping
from typing import Any

RUNNING = 3
"""BrokerState of a broker that serves; it opens its ports long before."""

ANSWER_SECONDS = 30.0
"""Who has ended refuses at once: only a busy broker is waited for."""

_STATE = {"type": "read", "mbean": "kafka.server:type=KafkaServer,name=BrokerState"}
_SENT = {
    "type": "read",
    "mbean": "kafka.server:type=socket-server-metrics,listener=*,networkProcessor=*",
    "attribute": "outgoing-byte-total",
}
_APPLIED = {
    "type": "read",
    "mbean": "kafka.server:type=broker-metadata-metrics",
    "attribute": "last-applied-record-offset",
}
_LISTENER = re.compile(r"listener=([^,]+)")


def agent_argument(jar: str, host: str, port: int) -> str:
    """The argument that makes a JVM load the agent; no multicast, no discovery."""
    return f"-javaagent:{jar}=host={host},port={port},discoveryEnabled=false"


def broker_state(port: int, timeout: float = 1.0) -> int | None:
    """BrokerState, or None while nothing, or no broker, answers at 127.0.0.1:``port``."""
    try:
        answer = _ask(port, _STATE, timeout)
    except (OSError, http.client.HTTPException, ValueError):
        return None
    value = answer.get("value")
    return value.get("Value") if isinstance(value, dict) else None


def applied_offset(port: int, timeout: float = ANSWER_SECONDS) -> int:
    """How far the broker is in the log of the cluster's metadata: the last record that it heeds.

    -1 where it does not say. Raises as `bytes_out` does.
    """
    value = _ask(port, _APPLIED, timeout).get("value")
    return int(value) if isinstance(value, int | float) else -1


def bytes_out(port: int, timeout: float = ANSWER_SECONDS) -> dict[str, int]:
    """Listener name to the bytes that the broker has sent through it since its start.

    Raises OSError (or http.client.HTTPException) where the broker does not answer.
    """
    found = _ask(port, _SENT, timeout).get("value")
    sent: dict[str, int] = {}
    for bean, values in (found if isinstance(found, Mapping) else {}).items():
        name = _LISTENER.search(bean)
        if name is not None:
            count = int(values["outgoing-byte-total"])
            sent[name.group(1)] = sent.get(name.group(1), 0) + count
    return sent


def _ask(port: int, request: Mapping[str, str], timeout: float) -> dict[str, Any]:
    # Plain http.client: it reads no proxy variables, and the agent is on this machine.
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("POST", "/jolokia/", json.dumps(request))
        answer = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return answer if isinstance(answer, dict) else {}
