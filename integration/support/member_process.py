"""One member of a group in its own process, which can be killed.

The parent writes a JSON object per line to this process, and reads one per line:

    <- {"client": "aiokafka", "assignor": "sticky", "config": {...}}       first
    <- {"subscribe": {"topics": [...], "pattern": null}}
    <- {"close": true}                                                     last
    -> {"at": 12.3, "change": "assigned", "partitions": [["t", 0], ...]}   at each callback
    -> {"at": 12.3, "owned": [["t", 0], ...], "generation": 4}             at each change
    -> {"at": 12.3, "read": [["t", 0, 17], ...]}                           topic, partition, offset
    -> {"at": 12.3, "closing": true}

``at`` is the time of the machine's monotonic clock, which all processes share. The process ends
after ``close``, or when its parent has ended.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

from integration.support.clients import KafkaPython, MakeClient, MemberConfig, PartitionId

ASSIGNORS = {
    "range": ("LeaderRackAwareRangeAssignor", "leader-rack-aware-range"),
    "sticky": ("LeaderRackAwareCooperativeStickyAssignor", "leader-rack-aware-cooperative-sticky"),
}
POLL_SECONDS = 0.1


def make_client(client: str, assignor: str) -> MakeClient:
    """Return what constructs members of a client library with one of `ASSIGNORS`."""
    name, protocol = ASSIGNORS[assignor]
    # Each process imports only the library of its member.
    if client == "confluent":
        from integration.support.confluent import Confluent

        return Confluent(protocol)
    if client == "aiokafka":
        import assignors.aiokafka
        from integration.support.aiokafka_clients import AIOKafka

        strategy = getattr(assignors.aiokafka, name)
        return AIOKafka(lambda rack: [strategy(rack=rack)])
    import assignors.kafka_python

    own = getattr(assignors.kafka_python, name)
    return KafkaPython(lambda rack: [own(rack=rack)])


def main() -> None:
    """Run the member until it is closed."""
    first = json.loads(sys.stdin.readline())
    commands: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_read_commands, args=(commands,), daemon=True).start()
    client = make_client(first["client"], first["assignor"])(MemberConfig(**first["config"]))

    def on_change(kind: str, partitions: Iterable[PartitionId]) -> None:
        _send(change=kind, partitions=sorted(partitions))

    before: object = None
    while True:
        try:
            command = commands.get_nowait()
        except queue.Empty:
            command = {}
        if "close" in command:
            _send(closing=True)
            client.close()
            return
        if "subscribe" in command:
            client.subscribe(on_change, **command["subscribe"])
        records = [(*partition, offset) for partition, offset in client.poll(POLL_SECONDS)]
        if records:
            _send(read=records)
        state = {"owned": sorted(client.owned()), "generation": client.generation()}
        if state != before:
            _send(**state)
            before = state


def _read_commands(commands: queue.Queue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        commands.put(json.loads(line))
    # The parent has ended. A member that went on would disturb later tests.
    os._exit(1)


def _send(**event: object) -> None:
    # One write per line: callbacks may be called in any thread.
    os.write(sys.stdout.fileno(), (json.dumps({"at": time.monotonic(), **event}) + "\n").encode())


if __name__ == "__main__":
    main()
