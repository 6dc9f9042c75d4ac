"""Looking at where leaders are, at a policy's pace, from within the polls of one consumer."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from assignors.kafka_python.strategies import read_leaders
from assignors.leading import About, Leaders, LeaderWatch
from assignors.refresh import PartitionState


class Lookout:
    """Asks for metadata once per interval, and has a watch look at the answer.

    kafka-python asks of itself every five minutes, and where a leader that it reads from is gone:
    of partitions that other members read it hears too late, or never.
    """

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._watch: LeaderWatch | None = None
        self._due = 0.0
        self._asked: int | None = None

    def follow(self, watch: LeaderWatch | None, now: float) -> None:
        """From now on it is ``watch`` that looks; None: nobody."""
        self._watch, self._asked = watch, None
        if watch is not None:
            self._due = now + watch.interval

    def is_due(self, answers: int, now: float) -> bool:
        """Whether there is something to do. ``answers``: of brokers, for metadata, so far."""
        if self._watch is None:
            return False
        return now >= self._due or (self._asked is not None and answers > self._asked)

    def look(self, answers: int, now: float, about: About) -> bool:
        """Do it; whether to ask for a rebalance."""
        watch = self._watch
        if watch is None:
            return False
        if self._asked is not None and answers > self._asked:
            self._asked = None
            return watch.look(partial(read_metadata, self._cluster), now, about)
        self._due = now + watch.interval
        self._asked = answers
        self._cluster.request_update()
        return False


def read_metadata(cluster: Any, topics: Iterable[str]) -> tuple[Leaders, Iterable[PartitionState]]:
    """What ``cluster``, a ClusterMetadata, knows of the leaders and replicas of ``topics``."""
    names = list(topics)
    # Replicas are not to be had otherwise. The dictionary is replaced as a whole by each answer.
    known = cluster._partitions
    states = (
        PartitionState(
            topic,
            number,
            partition.leader_id,
            partition.leader_epoch,
            partition.replica_nodes,
            partition.isr_nodes,
        )
        for topic in names
        for number, partition in known.get(topic, {}).items()
    )
    return read_leaders(cluster, names), states
