"""Runs one scenario with all its groups on one cluster, and checks what each group did."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from integration.chaos.checkers import History, longest_gap, repeated, violations
from integration.chaos.faults import RECORD_SECONDS, TOPIC_CONFIGS, Stage
from integration.chaos.memory import MemorySamples, MemoryUse, grown
from integration.chaos.scenarios import LED, MEMBERS, SESSION_SECONDS, Scenario
from integration.chaos.workload import (
    LEAD,
    RACKS,
    REFRESH,
    START_SECONDS,
    FaultyGroup,
    Lead,
    NumberedProducer,
    sent_records,
)
from integration.support.clients import PartitionId, partitions_of
from integration.support.groups import ConsumerGroup, Reads
from integration.support.offsets_topic import Commit, StoredGroup, stored_groups
from integration.support.racks import evenly, shortfall
from integration.support.topics import create_topic, new_name
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

PARTITIONS = 12
LARGEST_BATCH = 20
RECORD_SIZE = 100
"""Records of a partition that are sent at once, and bytes of a record, if there is a rate."""

OPTIMAL_SECONDS = 180.0
"""Seconds after the last step until the assignment must be the best."""

CLUSTER_PROPERTIES = {"min.insync.replicas": "2"}
"""So that no commit is lost with one broker. Topics have it in any cluster."""


@dataclass(frozen=True)
class Outcome:
    """What one group did in one scenario.

    recovered
        The longest time in which nothing of some partition was delivered, in seconds.
    """

    scenario: str
    client: str
    delivered: int
    repeated: int
    commits: int
    generations: int
    recovered: float
    violations: tuple[str, ...]
    memory: tuple[MemoryUse, ...] = ()

    def __str__(self) -> str:
        return (
            f"{self.client}: {self.delivered} delivered, {self.repeated} of them again,"
            f" {self.commits} commits, {self.generations} generations,"
            f" not reading for {self.recovered:.1f} s at most, {len(self.violations)} violations"
        )


def run(
    cluster: Cluster,
    scenario: Scenario,
    *,
    seed: int,
    groups: Sequence[str],
    report: Callable[[str], None] = lambda _: None,
) -> list[Outcome]:
    """Run a scenario with ``groups`` and return an outcome for each.

    Raise AssertionError if the groups do not start, if a step is not possible, or if records are
    never acknowledged.
    """
    random = Random(seed)
    led_from = ["a"] * PARTITIONS if scenario.one_leader else evenly(PARTITIONS, seed)
    leaders = [RACKS.index(rack) for rack in led_from]
    replicas = [[(leader + each) % 3 for each in range(3)] for leader in leaders]
    topic = create_topic(cluster, new_name(scenario.name), replicas, **TOPIC_CONFIGS)
    steps = scenario.drawn(seed)
    with ExitStack() as stack:
        running = [
            stack.enter_context(faulty_group(cluster, topic, client, scenario)) for client in groups
        ]
        for index in range(MEMBERS):
            for group in running:
                group.start(index)
        for group in running:
            group.group.settle(partitions_of(topic, PARTITIONS), within=START_SECONDS)
        memory = stack.enter_context(MemorySamples(partial(_processes, running)))
        batch = 1 if scenario.rate is None else LARGEST_BATCH
        every = RECORD_SECONDS if scenario.rate is None else PARTITIONS * batch / scenario.rate
        size = 1 if scenario.rate is None else RECORD_SIZE
        producer = NumberedProducer(cluster, topic, PARTITIONS, every, batch=batch, size=size)
        stage = Stage(cluster, topic, replicas, running, random, producer, report)
        stack.callback(stage.close)
        for group in running:
            _wait_until_read(stage, group, since=0.0)
        began = time.monotonic()
        stage.execute(steps, scenario.seconds)
        report("no more faults")
        problems = {group.client: _recover(stage, group) for group in running}
        recovered = time.monotonic()
        for group in running:
            try:
                _wait_until_read(stage, group, since=recovered)
            except AssertionError as error:
                problems[group.client].append(str(error))
        ended = time.monotonic()
        stage.producer.stop()
        seconds = time.monotonic() - stage.producer.began
        report(f"{stage.producer.sent} records sent in {seconds:.0f} s")
        for group in running:
            try:
                group.read_everything(topic, stage.producer)
                group.group.raise_errors()
            except AssertionError as error:
                problems[group.client].append(str(error))
        final = {group.client: (group.owned(), group.racks) for group in running}
        sent = [
            *stage.earlier,
            sent_records(cluster, topic, stage.producer, float("inf")),
        ]
    leader_racks = cluster.view([topic]).leader_racks()[topic]
    stored = stored_groups(cluster, *(group.group.id for group in running))
    outcomes = []
    for group in running:
        owned, racks = final[group.client]
        commits = stored[group.group.id]
        history = History(
            topic=topic,
            sent=sent,
            reads={p: group.reads_of((topic, p)) for p in range(len(stage.replicas))},
            changes=group.changes,
            claims=group.group.claims,
            commits=_in_monotonic_time(commits),
            generations=commits.generations,
            disturbed=(began, ended),
            bound=scenario.bound,
            owned=owned,
            racks=racks,
            leader_racks=leader_racks,
        )
        uses = memory.uses(f"{group.client}: ")
        outcome = Outcome(
            scenario.name,
            group.client,
            delivered=sum(reads.count for reads in history.reads.values()),
            repeated=repeated(history),
            commits=sum(map(len, history.commits.values())),
            generations=len({each.number for each in history.generations}),
            recovered=round(longest_gap(history), 1),
            violations=(*problems[group.client], *violations(history), *grown(uses)),
            memory=tuple(uses),
        )
        outcomes.append(outcome)
        report(str(outcome))
    return outcomes


@contextmanager
def faulty_group(
    cluster: Cluster, topic: str, client: str, scenario: Scenario
) -> Iterator[FaultyGroup]:
    """Yield a group without members, led if it is one of `LED`; end all its processes.

    The members leave the group, or are killed after an exception.
    """
    with ExitStack() as stack:
        group = stack.enter_context(ConsumerGroup(cluster, topics=[topic]))
        faulty = FaultyGroup(client, group, SESSION_SECONDS, scenario.commit_each, REFRESH)
        if client in LED:
            faulty.lead = Lead(cluster, group.id)
            stack.callback(faulty.lead.close)
            faulty.lead.wait_until_leading()
        try:
            yield faulty
        except BaseException:
            faulty.abandon()
            raise


def _recover(stage: Stage, group: FaultyGroup) -> list[str]:
    """Wait until the assignment is the best; return why it is not after `OPTIMAL_SECONDS`."""
    expected = partitions_of(stage.topic, len(stage.replicas))
    deadline = time.monotonic() + OPTIMAL_SECONDS
    while True:
        try:
            remaining = max(1.0, deadline - time.monotonic())
            owned = group.group.settle(expected, within=remaining)
        except AssertionError as error:
            return [str(error)]
        leader_racks = stage.cluster.view([stage.topic]).leader_racks()
        found = shortfall(owned, group.racks, leader_racks)
        if not found or time.monotonic() > deadline:
            return []
        time.sleep(0.2)


def _wait_until_read(stage: Stage, group: FaultyGroup, since: float) -> None:
    """Wait until the group has read a record of each partition after that time."""
    for number in range(len(stage.replicas)):
        tp = (stage.topic, number)
        reads = group.reads_of(tp)
        try:
            wait_until(
                partial(_read_after, reads, since),
                TEST_TIMEOUT,
                f"{group.client} reads partition {number}",
            )
        except AssertionError as error:
            changes = [
                (round(each.when - since, 1), each.member, each.kind)
                for each in group.changes
                if tp in each.partitions or not each.partitions
            ]
            last = [
                (round(at - since, 1), offset, name) for at, offset, _, name in reads.spans[-3:]
            ]
            raise AssertionError(
                f"{error}; its last reads are {last}, its last owners {changes[-6:]}"
            ) from None


def _read_after(reads: Reads, since: float) -> bool:
    return bool(reads.spans) and reads.spans[-1].at > since


def _in_monotonic_time(stored: StoredGroup) -> dict[PartitionId, list[Commit]]:
    """Return the commits with times of the monotonic clock."""
    shift = time.monotonic() - time.time()
    return {
        tp: [replace(each, at=each.at + shift) for each in commits]
        for tp, commits in stored.commits.items()
    }


def _processes(groups: Sequence[FaultyGroup]) -> dict[str, list[int]]:
    """Return the process ids of the members, and of ``rackward lead``, by "group: kind"."""
    found: dict[str, list[int]] = {}
    for group in groups:
        for name, pid in group.processes.items():
            kind = LEAD if name == LEAD else "members"
            found.setdefault(f"{group.client}: {kind}", []).append(pid)
    return found
