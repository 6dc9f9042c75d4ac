"""What tests that move replicas by the real command have in common."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from integration.command_line import Done, Running, rackward
from integration.throttle_settings import throttle_settings
from integration.topics import with_admin
from rackward.clusters import Cluster

SINGLE = [[broker] for broker in range(6)]
TRIPLE = [[0, 2, 4], [1, 3, 5], [2, 4, 1], [3, 5, 0], [4, 0, 3], [5, 1, 2]]
SLOW = "60kB"
"""A throttle under which 3 MB are on their way for longer than a test needs."""


@contextmanager
def moved_topic(cluster: Cluster, name: str) -> Iterator[str]:
    """The topic is deleted at the end, and no throttle is left behind."""
    yield name
    with_admin(cluster, lambda admin: admin.delete_topics([name], raise_errors=False))
    assert throttle_settings(cluster) == {}


def rows(cluster: Cluster, topic: str) -> list[tuple[int, ...]]:
    """The topic's replica lists, in order of partition."""
    cluster.await_metadata()
    return [row for _, row in sorted(cluster.view([topic]).replicas.items())]


def nothing_moves(cluster: Cluster) -> bool:
    """Whether no reassignment is under way."""
    return bool(with_admin(cluster, lambda admin: admin.list_partition_reassignments()) == {})


def in_three_racks(row: tuple[int, ...]) -> bool:
    return len(row) == 3 and {broker // 2 for broker in row} == {0, 1, 2}


def plan(cluster: Cluster, topic: str, path: Path, *arguments: object) -> dict[str, Any]:
    """Write a plan for the topic; returns what the file holds."""
    rackward(cluster, "placement", "plan", "--topics", topic, "-o", path, *arguments)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def midway(command: Running) -> None:
    """Return when bytes are being copied, as the command itself says."""
    event = command.until(lambda line: '"progressed"' in line)
    assert json.loads(event)["copied"] < json.loads(event)["bytes"]


def one_line(done: Done) -> str:
    """The one line that a refusal is."""
    assert done.out == ""
    assert done.err.startswith("rackward: ")
    assert done.err.count("\n") == 1
    return done.err
