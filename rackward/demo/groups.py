"""The parent's side of a strategy's consumers: start, ask, wait for calm, end."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from placement_core import RackwardError
from rackward.demo.group_process import LEAVE_SECONDS, GroupReport, serve
from rackward.demo.measures import Assignment
from rackward.demo.member import MemberSpec
from rackward.demo.strategies import Strategy

ANSWER_SECONDS = 60.0
QUIET_SECONDS = 1.5
"""A group is settled when nothing was gained or lost for so long."""


class DemoError(RackwardError):
    """The demo cannot go on: a group fell silent, did not settle, or lost a member."""


class Group:
    """One strategy's consumer group, in a process of its own."""

    def __init__(self, strategy: Strategy, topic: str, name: str, log: Path) -> None:
        self.strategy = strategy
        self.racks: dict[str, str] = {}
        self._topic = topic
        self._name = name
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=serve, args=(theirs, strategy.key, log), name=name, daemon=True
        )
        with _interrupts_held():
            self._process.start()
        theirs.close()

    def join(self, member: str, rack: str, bootstrap: str) -> None:
        """Start ``member``, that stands in ``rack`` and knows the cluster by ``bootstrap``."""
        spec = MemberSpec(
            name=f"{self.strategy.key}-{member}",
            rack=rack,
            topic=self._topic,
            group=self._name,
            bootstrap=bootstrap,
        )
        self._ask("join", spec)
        self.racks[spec.name] = rack

    def leave(self, member: str) -> None:
        """Let ``member`` leave the group."""
        name = f"{self.strategy.key}-{member}"
        self._ask("leave", name)
        del self.racks[name]

    def report(self) -> GroupReport:
        """How the group stands now. Raises DemoError where a member failed."""
        report = self._ask("states")
        if report.failures:
            raise DemoError(f"{self.strategy.title}: {'; '.join(report.failures)}")
        return report

    def close(self, *, politely: bool) -> None:
        """End the process: ``politely``, its members leave the group first (bounded)."""
        self._pipe.close()
        if politely:
            self._process.join(LEAVE_SECONDS + 2)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _ask(self, request: str, argument: Any = None) -> GroupReport:
        try:
            self._pipe.send((request, argument))
            if self._pipe.poll(ANSWER_SECONDS):
                answer: GroupReport = self._pipe.recv()
                return answer
        except (EOFError, OSError) as error:
            raise DemoError(
                f"the process of {self.strategy.title} ended by itself "
                f"(exit status {self._process.exitcode}); see its log (--keep-logs)"
            ) from error
        raise DemoError(
            f"the process of {self.strategy.title} gave no answer for {ANSWER_SECONDS:.0f} s"
        )


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Keep Ctrl-C from a process that starts: it is delivered to us when it has started.

    The terminal sends it to every process of ours at once, and until a new one has come so
    far as to ignore it, it would die of it with a traceback. It inherits what is blocked.
    """
    # Started by the first process of ours otherwise, and it unblocks the signal when it is.
    resource_tracker.ensure_running()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def settled(report: GroupReport, partitions: int) -> bool:
    """Whether a group is at rest: one generation, every partition with exactly one reader."""
    states = report.members.values()
    read = sorted(partition for state in states for partition in state.partitions)
    return (
        len({state.generation for state in states}) == 1
        and all(state.generation >= 0 for state in states)
        and all(state.quiet_seconds >= QUIET_SECONDS for state in states)
        and read == list(range(partitions))
    )


def wait_until_settled(
    groups: Sequence[Group],
    partitions: int,
    tick: Callable[[Mapping[str, GroupReport]], None],
    clock: Callable[[], float],
    seconds: float = 180.0,
) -> None:
    """Return when every group is at rest; ``tick`` is called with each round's reports.

    Raises DemoError, naming the groups, where one is not within ``seconds``.
    """
    deadline = clock() + seconds
    while True:
        reports = {group.strategy.key: group.report() for group in groups}
        tick(reports)
        restless = [
            group.strategy.title
            for group in groups
            if not settled(reports[group.strategy.key], partitions)
        ]
        if not restless:
            return
        if clock() > deadline:
            raise DemoError(
                f"no rest within {seconds:.0f} s: {', '.join(restless)}; see --keep-logs"
            )


def assignment_of(report: GroupReport) -> Assignment:
    """Who reads what, as the members themselves say."""
    return {name: state.partitions for name, state in report.members.items()}
