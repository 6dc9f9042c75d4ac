"""A broker as the cluster that runs it knows it."""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


def new_uuid() -> str:
    """A random id as Kafka writes them, never beginning with a dash."""
    return "r" + urlsafe_b64encode(secrets.token_bytes(16)).decode()[1:22]


class State(StrEnum):
    """What a broker's process does."""

    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


@dataclass(slots=True)
class Node:
    """A broker: ``ports`` are those of 127.0.0.1 by listener, ``agent`` is Jolokia's."""

    id: int
    rack: str | None
    ports: Mapping[str, int]
    agent: int
    state: State = State.DEAD

    @property
    def name(self) -> str:
        """What its process, folder or container is called."""
        return f"broker-{self.id}"
