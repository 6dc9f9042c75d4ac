"""A process that holds one strategy's consumers, and does what it is told over a pipe.

A process of its own, because six consumers of kafka-python fill a good part of what one
interpreter can do and the strategies must not slow each other down. Requests and answers
are pairs over one pipe: ``("join", spec)``, ``("leave", name)`` and ``("states", None)``
are answered with a `GroupReport`. The pipe's end, which the parent's death is too, ends it.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from rackward.demo.member import Member, MemberSpec, MemberState

LEAVE_SECONDS = 8.0
"""How long the members have to leave at the end."""


@dataclass(frozen=True, slots=True)
class GroupReport:
    """The members that are in the group, what was read by all there ever were, and faults.

    ``positions``: per partition, the offset after the last record that any member read.
    """

    members: Mapping[str, MemberState]
    interrupted: int
    records: int
    positions: Mapping[int, int]
    failures: tuple[str, ...]


def serve(pipe: Connection, key: str, log: Path) -> None:
    """The process's main function: hold the consumers of the strategy ``key`` until told to end.

    What the client library and the assignor log goes to the file ``log``.
    """
    # Ctrl-C reaches the whole terminal: the parent decides, and tells us by the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(
        filename=log, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    logging.getLogger("kafka").setLevel(logging.WARNING)
    present: dict[str, Member] = {}
    past: list[Member] = []
    try:
        while True:
            request, argument = pipe.recv()
            if request == "join":
                present[argument.name] = _start(argument, key)
            elif request == "leave":
                member = present.pop(argument)
                member.leave()
                past.append(member)
            pipe.send(_report(present, past))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    finally:
        for member in present.values():
            member.leave()
        for member in present.values():
            member.join(LEAVE_SECONDS)


def _start(spec: MemberSpec, key: str) -> Member:
    member = Member(spec, assignor_of(key, spec.rack))
    member.start()
    return member


def _report(present: Mapping[str, Member], past: list[Member]) -> GroupReport:
    states = {name: member.state() for name, member in present.items()}
    everyone = [*states.values(), *(member.state() for member in past)]
    positions: dict[int, int] = {}
    for state in everyone:
        for partition, offset in state.positions.items():
            positions[partition] = max(offset, positions.get(partition, 0))
    return GroupReport(
        members=states,
        interrupted=sum(state.interrupted for state in everyone),
        records=sum(state.records for state in everyone),
        positions=positions,
        failures=tuple(
            f"{member.name}: {type(member.failure).__name__}: {member.failure}"
            for member in [*present.values(), *past]
            if member.failure is not None
        ),
    )


def assignor_of(key: str, rack: str) -> Any:
    """What goes into kafka-python's ``partition_assignment_strategy`` for the strategy ``key``."""
    if key.startswith("our-"):
        from assignors.kafka_python import (
            LeaderRackAwareCooperativeStickyAssignor,
            LeaderRackAwareRangeAssignor,
        )

        if key == "our-range":
            return LeaderRackAwareRangeAssignor(rack=rack)
        return LeaderRackAwareCooperativeStickyAssignor(rack=rack)
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    return RangePartitionAssignor if key == "range" else CooperativeStickyAssignor
