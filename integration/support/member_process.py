"""One member of a group in a process of its own, which can be killed.

The parent writes a JSON object per line to this process, and reads one per line:

    <- {"make": "aiokafka", "assignor": "sticky", "joining": {...}}        first of all
    <- {"subscribe": {"topics": [...], "pattern": null}}
    <- {"close": true}                                                     last of all
    -> {"at": 12.3, "told": "assigned", "places": [["t", 0], ...]}         as callbacks are called
    -> {"at": 12.3, "owned": [["t", 0], ...], "generation": 4}             as they change
    -> {"at": 12.3, "read": [["t", 0, 17], ...]}                           topic, partition, offset
    -> {"at": 12.3, "closing": true}

``at`` is the machine's monotonic clock, which all processes share. The process ends when it is
told to, or when its parent is gone.
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

from integration.support.clients import Joining, KafkaPython, MakeClient, Place

ASSIGNORS = {
    "range": ("LeaderRackAwareRangeAssignor", "leader-rack-aware-range"),
    "sticky": ("LeaderRackAwareCooperativeStickyAssignor", "leader-rack-aware-cooperative-sticky"),
}
POLL_SECONDS = 0.1


def make_client(client: str, assignor: str) -> MakeClient:
    """What makes members of kafka-python, confluent or aiokafka with one of `ASSIGNORS`."""
    name, protocol = ASSIGNORS[assignor]
    # Each process imports the one library that it is a member with.
    if client == "confluent":
        from integration.support.confluent_clients import Confluent

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
    """Be a member until told otherwise."""
    first = json.loads(sys.stdin.readline())
    commands: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_listen, args=(commands,), daemon=True).start()
    client = make_client(first["make"], first["assignor"])(Joining(**first["joining"]))

    def told(kind: str, places: Iterable[Place]) -> None:
        _say(told=kind, places=sorted(places))

    before: object = None
    while True:
        try:
            command = commands.get_nowait()
        except queue.Empty:
            command = {}
        if "close" in command:
            _say(closing=True)
            client.close()
            return
        if "subscribe" in command:
            client.subscribe(told, **command["subscribe"])
        found = [(*place, offset) for place, offset in client.poll(POLL_SECONDS)]
        if found:
            _say(read=found)
        state = {"owned": sorted(client.owned()), "generation": client.generation()}
        if state != before:
            _say(**state)
            before = state


def _listen(commands: queue.Queue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        commands.put(json.loads(line))
    # Nobody is left to tell it to end; a member that goes on would disturb other groups' tests.
    os._exit(1)


def _say(**what: object) -> None:
    # One write per line, whichever thread a callback comes in.
    os.write(sys.stdout.fileno(), (json.dumps({"at": time.monotonic(), **what}) + "\n").encode())


if __name__ == "__main__":
    main()
