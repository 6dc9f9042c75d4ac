"""Read for minutes with each client while members and coordinators are killed, and check the reads.

    python -m integration.clients.soak --minutes 10 --seed 1

Each client has a group of six processes on one cluster of three brokers: kafka-python, aiokafka and
confluent with our cooperative assignor, and stock: confluent's own consumer with librdkafka's. All
read the same topic, and commit each record before they take the next. Members are killed at the
same times in every group, and start again; brokers that coordinate a group are killed, and start
again.

Checked for each group:

- every acknowledged record is delivered, and none is skipped: no member delivers a record before
  all records before it have been delivered;
- no committed offset is lower than the one before, in the order in which brokers stored them;
- no partition is read by two members in one generation;
- records are repeated no more often than by stock, with a tolerance for chance: one record per
  killed member, and one per partition and killed coordinator, because that many may be delivered
  and not yet committed at that moment.

The exit status is 1 if a check fails.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from integration.chaos.checkers import decreases, shared_partitions, skipped
from integration.chaos.workload import RACKS, READ_SECONDS, START_SECONDS, FaultyGroup
from integration.support.groups import ConsumerGroup, everything_is_read
from integration.support.offsets_topic import commit_history
from integration.support.topics import (
    SteadyProducer,
    coordinator_of,
    create_topic,
    new_name,
)
from rackward.testing import Cluster, LocalCluster

CLIENTS = ("kafka-python", "aiokafka", "confluent", "stock")
"""Clients of `integration.support.process_clients`."""

PARTITIONS = 12
RECORD_SECONDS = 1.0
"""Seconds between two records of a partition."""

SESSION_SECONDS = 20
PAUSE_SECONDS = (5.0, 20.0)
"""Shortest and longest time between two faults."""

MEMBER_DOWN_SECONDS = (1.0, 5.0)
BROKER_DOWN_SECONDS = (8.0, 12.0)


@dataclass
class Faults:
    """Number of members killed in each group, and of brokers killed."""

    members: int = 0
    coordinators: int = 0


@dataclass(frozen=True)
class Result:
    """What a group has done: counts, and violations as text."""

    client: str
    delivered: int
    repeated: int
    commits: int
    not_committed: Mapping[str, int]
    """Number of commits that failed, by the name of the error."""
    violations: tuple[str, ...]


# ---- Checks


def repeats_limit(stock: int, faults: Faults) -> int:
    """Return how many records a client may repeat, if stock repeats ``stock``."""
    return stock + faults.members + faults.coordinators * PARTITIONS


def problems(results: Sequence[Result], faults: Faults) -> list[str]:
    """Return what is wrong with the results; for confluent's own consumer too."""
    found = [f"{each.client}: {text}" for each in results for text in each.violations]
    stock = next((each for each in results if each.client == "stock"), None)
    if stock is not None:
        limit = repeats_limit(stock.repeated, faults)
        found += [
            f"{each.client}: repeated {each.repeated} records, stock {stock.repeated},"
            f" limit {limit}"
            for each in results
            if each.repeated > limit
        ]
    return found


# ---- The run


def run(
    cluster: Cluster,
    *,
    seconds: float,
    seed: int,
    clients: Sequence[str] = CLIENTS,
    members: int = 6,
    report: Callable[[str], None] = lambda _: None,
) -> tuple[list[Result], Faults]:
    """Run the groups for ``seconds`` and return their results.

    Raise AssertionError if a member ends by an error, or if a group does not settle or does not
    read all records in time.
    """
    topic = create_topic(
        cluster, new_name("soak"), [[(n + i) % 3 for i in range(3)] for n in range(PARTITIONS)]
    )
    partitions = {(topic, number) for number in range(PARTITIONS)}
    with ExitStack() as stack:
        groups = [
            FaultyGroup(
                client,
                stack.enter_context(ConsumerGroup(cluster, topics=[topic])),
                SESSION_SECONDS,
                commit_each=True,
            )
            for client in clients
        ]
        for index in range(members):
            for group in groups:
                group.start(index)
        for group in groups:
            group.group.settle(partitions, within=START_SECONDS)
            report(f"{group.client}: {members} members")
        sent = stack.enter_context(SteadyProducer(cluster, topic, PARTITIONS, every=RECORD_SECONDS))
        faults = _disturb(cluster, groups, members, seconds, random.Random(seed), report)
        for group in groups:
            group.group.settle(partitions, within=START_SECONDS)
        sent.stop()
        results = []
        for group in groups:
            everything_is_read(group.group.reads_of, topic, sent, READ_SECONDS)
            group.group.raise_errors()
        histories = {group.client: commit_history(cluster, group.group.id) for group in groups}
    for group in groups:
        reads = {number: reads for (_, number), reads in group.group.reads.items()}
        history = histories[group.client]
        delivered = sum(each.count for each in reads.values())
        results.append(
            Result(
                client=group.client,
                delivered=delivered,
                repeated=delivered - sum(len(each.offsets()) for each in reads.values()),
                commits=sum(map(len, history.values())),
                not_committed=Counter(text.split(":")[0] for text in group.group.not_committed),
                violations=(
                    *skipped(sent.acknowledged, reads),
                    *decreases(history),
                    *shared_partitions(group.group.claims),
                ),
            )
        )
    return results, faults


def _disturb(
    cluster: Cluster,
    groups: Sequence[FaultyGroup],
    members: int,
    seconds: float,
    rng: random.Random,
    report: Callable[[str], None],
) -> Faults:
    """Kill and start members and coordinators until the time is over: first one of each."""
    faults = Faults()
    end = time.monotonic() + seconds
    while not (faults.members and faults.coordinators) or time.monotonic() < end:
        time.sleep(rng.uniform(*PAUSE_SECONDS))
        for group in groups:
            group.group.raise_errors()
        if not faults.members or (faults.coordinators and rng.random() < 0.7):
            index = rng.randrange(members)
            report(f"kill member {index} of each group")
            for group in groups:
                group.kill(index)
            faults.members += 1
            time.sleep(rng.uniform(*MEMBER_DOWN_SECONDS))
            for group in groups:
                group.start(index)
        else:
            group = rng.choice(groups)
            broker = coordinator_of(cluster, group.group.id)
            report(f"kill broker {broker}, the coordinator of {group.client}")
            cluster.kill_broker(broker)
            faults.coordinators += 1
            time.sleep(rng.uniform(*BROKER_DOWN_SECONDS))
            cluster.start_broker(broker)
    return faults


def table(results: Sequence[Result], faults: Faults) -> str:
    """Return the results as text."""
    lines = [f"{'client':13} delivered repeated commits not committed violations"]
    lines += [
        f"{each.client:13} {each.delivered:9} {each.repeated:8} {each.commits:7}"
        f" {sum(each.not_committed.values()):13} {len(each.violations):10}"
        for each in results
    ]
    lines += [
        f"{each.client}: {number} commits failed with {error}"
        for each in results
        for error, number in sorted(each.not_committed.items())
    ]
    lines.append(
        f"killed: {faults.members} members of each group, {faults.coordinators} coordinators"
    )
    return "\n".join(lines)


def main() -> None:
    """Run the soak and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10, help="default: 10")
    parser.add_argument("--seed", type=int, default=1, help="times of the faults (default: 1)")
    parser.add_argument("--clients", default=",".join(CLIENTS), help=f"of {', '.join(CLIENTS)}")
    options = parser.parse_args()
    clients = options.clients.split(",")
    if unknown := set(clients) - set(CLIENTS):
        parser.error(f"unknown client {', '.join(sorted(unknown))}: give {', '.join(CLIENTS)}")
    started = time.monotonic()

    def report(line: str) -> None:
        print(f"{time.monotonic() - started:6.1f} s {line}", file=sys.stderr, flush=True)

    with LocalCluster(RACKS) as cluster:
        results, faults = run(
            cluster,
            seconds=60 * options.minutes,
            seed=options.seed,
            clients=clients,
            report=report,
        )
    print(table(results, faults))
    if found := problems(results, faults):
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
