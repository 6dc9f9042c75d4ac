"""Placeholders: -1, -2, -3 in a replica list stand for replicas that no broker holds yet (KIP-409).

They are what callers of rackward see. No broker ever hears of them: on the cluster such a
partition is one with fewer replicas.
"""

from __future__ import annotations

from collections.abc import Iterable


def placeholders(count: int) -> tuple[int, ...]:
    """So many of them: (-1, -2, ...)."""
    return tuple(range(-1, -1 - count, -1))


def without_placeholders(row: Iterable[int]) -> tuple[int, ...]:
    """The replicas of a list that brokers hold, in their order."""
    return tuple(broker for broker in row if broker >= 0)


def padded(row: Iterable[int], replication_factor: int) -> tuple[int, ...]:
    """The held replicas, and a placeholder for each that is missing."""
    held = without_placeholders(row)
    return held + placeholders(max(0, replication_factor - len(held)))
