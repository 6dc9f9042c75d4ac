"""Leaders that follow groups of every kind while their members change, and what is read meanwhile.

    python -m integration.controller.kinds --minutes 10
    python -m integration.controller.kinds --minutes 10 --unfollowed
    python -m integration.controller.kinds --minutes 10 --one-topic
    python -m integration.controller.kinds --kinds share connect --minutes 3

Each group has three members, one in each rack, and a topic of its own, or all groups have one
topic: 12 partitions with a replica in each of three racks. Every 20 s a member of each group leaves
and another one joins, in another rack. Brokers elect preferred leaders every five seconds. With
``--unfollowed`` the same members change without a controller.

What is local is counted by what members report to have read, and where the leaders were at that
time; at rest also by the brokers, who count the bytes that they send to the members of each rack.
The best possible is that of the layout of leaders that `plan_leaders` proves to be optimal.
"""

from __future__ import annotations

import argparse
import itertools
import random
import tempfile
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from integration.support.clients import Client, MakeClient, MemberConfig
from integration.support.collecting import new_protocol
from integration.support.controllers import followed
from integration.support.groups import ConsumerGroup, everything_is_read
from integration.support.java_programs import RACKS, ShareConsumer, Streams, sink_connector
from integration.support.program_clients import RANGE, Java
from integration.support.topics import SteadyProducer, create_topics, delete_topic, new_name
from placement_core import TopicPartition
from placement_core.leaders import plan_leaders
from rackward.groups.host_racks import HostRacks
from rackward.groups.readers import AssignmentKind, find_groups, is_stable, readers_of_groups
from rackward.kafka import AdminError, connect
from rackward.testing import Cluster, LocalCluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

PARTITIONS = 12
RECORD_BYTES = 4000
EVERY = 0.5
"""Seconds between two records of a partition."""
CHANGE_SECONDS = 20.0
REST_SECONDS, RESTS = 20.0, 5
"""Seconds without a rebalance or a moved leader, and how often they are waited for."""
LOOK_SECONDS = 0.5
"""Seconds between two looks at the leaders."""
MAX_EXCESS = 0.05
"""Of all bytes, those that cross racks at rest beyond the optimum."""
STABLE_SECONDS = 300.0
"""Seconds for all groups to start, each with three JVMs."""
FOLLOWED_SECONDS = 180.0
"""Seconds for leaders to follow: rates are measured over a minute."""
BOUND = 4000
"""Elections per hour."""
ELECTING = {
    "auto.leader.rebalance.enable": "true",
    "leader.imbalance.check.interval.seconds": "5",
    "leader.imbalance.per.broker.percentage": "0",
}
"""Settings of brokers that elect preferred leaders all the time."""


def range_of_brokers(config: MemberConfig) -> Client:
    """Construct a consumer of the new protocol whose group brokers assign by range."""
    return new_protocol(replace(config, settings={"group.remote.assignor": "range"}))


CLIENTS: Mapping[str, MakeClient] = {
    "kip-848-uniform": new_protocol,
    "kip-848-range": range_of_brokers,
    "streams-classic": Streams("classic"),
    "streams-kip-1071": Streams("streams"),
    "share": ShareConsumer(),
    "java-classic": Java(RANGE),
}
CONNECT = "connect"
KINDS = (*CLIENTS, CONNECT)
FIVE = ("kip-848-uniform", "streams-kip-1071", "share", CONNECT, "java-classic")
"""The kinds that read one topic."""


@dataclass
class Group:
    """A group ``id`` of a kind. Of Connect, its ``members`` are the workers that run them."""

    kind: str
    topic: str
    id: str
    members: ConsumerGroup
    racks: dict[str, str] = field(default_factory=dict)
    """Of all members so far."""
    changed: list[float] = field(default_factory=list)
    """Times at which a member left."""

    def start(self, rack: str) -> None:
        name = f"m{len(self.racks)}-{rack}"
        self.racks[name] = rack
        self.members.start(name, rack)

    def replace_member(self, rng: random.Random) -> None:
        """Stop a member; another one joins in another rack."""
        name = rng.choice(sorted(self.members.members))
        self.changed.append(time.monotonic())
        self.members.stop(name)
        self.start(rng.choice(sorted({*RACKS} - {self.racks[name]})))

    @property
    def count(self) -> int:
        """Members that brokers have of the group."""
        return 6 if self.kind == CONNECT else len(RACKS)

    def repeats(self) -> list[tuple[TopicPartition, float, float, str]]:
        """Return the partition, the times and the readers of each record that was read again."""
        repeats = []
        for number in range(PARTITIONS):
            tp = TopicPartition(self.topic, number)
            first: dict[int, tuple[float, str]] = {}
            for at, offset, member in self.members.reads_of(tp).seen:
                if offset in first:
                    before, reader = first[offset]
                    repeats.append((tp, before, at, f"{reader}, {member}"))
                else:
                    first[offset] = at, member
        return repeats

    def lost(self, sent: SteadyProducer) -> int:
        """Return how many acknowledged records have not been read."""
        try:
            everything_is_read(self.members.reads_of, self.topic, sent)
        except AssertionError as error:
            print(f"{self.kind}: {error}")
        return sum(
            len(offsets - self.members.reads_of((self.topic, number)).offsets())
            for number, offsets in sent.acknowledged.items()
        )


@contextmanager
def run_group(cluster: Cluster, kind: str, topic: str) -> Iterator[Group]:
    """Run a group with a member in each rack."""
    if kind == CONNECT:
        with sink_connector(cluster, topic) as (workers, tasks):
            racks = dict(zip(workers.members, RACKS, strict=True))
            yield Group(kind, topic, tasks, workers, racks)
        return
    with ConsumerGroup(cluster, topics=[topic], client=CLIENTS[kind]) as members:
        group = Group(kind, topic, members.id, members)
        for rack in RACKS:
            group.start(rack)
        yield group


@dataclass
class Groups:
    """Groups on one cluster, and where the leaders of their topics were."""

    cluster: Cluster
    groups: Sequence[Group]
    sent: Mapping[str, SteadyProducer]
    looks: list[tuple[float, Mapping[TopicPartition, str | None]]] = field(default_factory=list)
    """Times, and the racks of leaders."""

    def look(self) -> None:
        """Note where the leaders are; raise GroupError if a member has failed."""
        for group in self.groups:
            group.members.raise_errors()
        view = self.cluster.view(sorted(self.sent))
        racks = view.racks()
        leaders = {tp: racks.get(broker) for tp, broker in view.known_leaders.items()}
        self.looks.append((time.monotonic(), leaders))

    def look_for(self, seconds: float) -> None:
        """Look for so many seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.look()
            time.sleep(LOOK_SECONDS)

    def local(self, group: Group, since: float, until: float) -> float:
        """Return the share of records that were read from leaders in the member's rack."""
        times = [at for at, _ in self.looks]
        total = local = 0
        for number in range(PARTITIONS):
            tp = TopicPartition(group.topic, number)
            for span in list(group.members.reads_of(tp).spans):
                if since <= span.at < until:
                    leader = self.looks[max(bisect_right(times, span.at) - 1, 0)][1].get(tp)
                    total += span.end - span.first
                    local += (span.end - span.first) * (leader == group.racks[span.member])
        return local / max(total, 1)

    def elections(self, topic: str, since: float) -> int:
        """Return how often a leader of the topic was another one than before."""
        seen = [leaders for at, leaders in self.looks if at >= since]
        return sum(
            tp.topic == topic and after[tp] != rack
            for before, after in itertools.pairwise(seen)
            for tp, rack in before.items()
            if tp in after
        )

    def repeated(self, group: Group) -> int:
        """Return how often the group read a record again; print each, and what happened before."""
        moved: dict[TopicPartition, list[float]] = {}
        for (_, before), (at, after) in itertools.pairwise(self.looks):
            for tp in before.keys() & after.keys():
                if before[tp] != after[tp]:
                    moved.setdefault(tp, []).append(at)

        def ago(events: list[float], at: float) -> str:
            index = bisect_right(events, at)
            return f"{at - events[index - 1]:.1f}" if index else "never"

        repeats = group.repeats()
        for tp, first, again, members in repeats:
            print(
                f"{group.kind}: {tp} again after {again - first:.2f} s ({members}), "
                f"leader moved {ago(moved.get(tp, []), again)} s before, "
                f"members changed {ago(group.changed, again)} s before"
            )
        return len(repeats)

    def shares(self) -> dict[str, tuple[float, float]] | None:
        """Return what of each group's reads is local, now and at best, which is proved.

        None while a group is rebalancing, or not all of its partitions are read.
        """
        servers = {"bootstrap.servers": self.cluster.bootstrap_servers}
        try:
            with connect(servers, timeout=TEST_TIMEOUT) as admin:
                found = find_groups(admin, self.cluster.racks, self.ids)
        except AdminError:
            return None  # A coordinator is loading.
        for group in self.groups:
            live = found.get(group.id)
            if live is None or not is_stable(live) or len(live.members) != group.count:
                return None
        readers = readers_of_groups(found.values(), HostRacks(), AssignmentKind.CURRENT)
        if any(len(each.racks) + len(each.shared) < PARTITIONS for each in readers.assignments):
            return None
        layout = plan_leaders(self.cluster.view(sorted(self.sent)), assignments=readers.assignments)
        assert layout.locality_proved
        return {
            each.name: (1 - each.before / each.total, 1 - each.after / each.total)
            for each in layout.consumed
        }

    @property
    def ids(self) -> list[str]:
        """The names of the groups."""
        return [group.id for group in self.groups]

    def is_followed(self) -> bool:
        """Return whether leaders are where they are read, as far as one leader can be."""
        shares = self.shares()
        if shares is None:
            return False
        by_topic: dict[str, list[tuple[float, float]]] = {}
        for group in self.groups:
            by_topic.setdefault(group.topic, []).append(shares[group.id])
        return all(
            sum(best - now for now, best in each) / len(each) <= MAX_EXCESS
            for each in by_topic.values()
        )


@contextmanager
def run_groups(cluster: Cluster, kinds: Sequence[str], *, one_topic: bool) -> Iterator[Groups]:
    """Run groups of these kinds, which read what is written to them all the time."""
    rng = random.Random(3)
    shared = new_name("shared")
    topics = {kind: shared if one_topic else new_name(kind) for kind in kinds}
    rows = {
        topic: [rng.sample(range(len(RACKS)), len(RACKS)) for _ in range(PARTITIONS)]
        for topic in dict.fromkeys(topics.values())
    }
    create_topics(cluster, rows)
    value = rng.randbytes(RECORD_BYTES // 2).hex().encode()
    with ExitStack() as stack:
        groups = [stack.enter_context(run_group(cluster, *each)) for each in topics.items()]
        sent = {
            topic: stack.enter_context(SteadyProducer(cluster, topic, PARTITIONS, EVERY, value))
            for topic in rows
        }
        running = Groups(cluster, groups, sent)
        wait_until(lambda: running.shares() is not None, STABLE_SECONDS, "all groups are stable")
        yield running
    for topic in rows:
        delete_topic(cluster, topic)


@dataclass(frozen=True)
class Figures:
    """What a group read: local shares, and records that were lost and repeated."""

    kind: str
    changes: int
    local_while_changing: float
    local_at_rest: float
    best_at_rest: float
    elections: int
    """Of its topic, while members changed and until they rested."""
    lost: int
    repeated: int


@dataclass(frozen=True)
class Report:
    """Figures of all groups. ``counted_local`` is what the brokers counted at rest; ``elections``
    what the controller did, and its bound for an hour."""

    groups: tuple[Figures, ...]
    counted_local: float
    best_local: float
    elections: int | None
    bound: int = BOUND

    def __str__(self) -> str:
        lines = [
            f"{'group':17} changes  local: changing  at rest  at best  elections  lost  repeated"
        ]
        lines += [
            f"{each.kind:17} {each.changes:7} {each.local_while_changing:16.1%}"
            f" {each.local_at_rest:8.1%} {each.best_at_rest:8.1%} {each.elections:10}"
            f" {each.lost:5} {each.repeated:9}"
            for each in self.groups
        ]
        lines.append(
            f"at rest, by the brokers' counters: {self.counted_local:.1%} local of"
            f" {self.best_local:.1%} at best; elections in the last hour: {self.elections},"
            f" bound {self.bound}"
        )
        return "\n".join(lines)


def measure(
    kinds: Sequence[str], seconds: float, *, one_topic: bool = False, follow: bool = True
) -> Report:
    """Run groups of these kinds whose members change for so many seconds, and then rest."""
    with (
        LocalCluster(RACKS, server_properties=ELECTING) as cluster,
        run_groups(cluster, kinds, one_topic=one_topic) as groups,
        tempfile.TemporaryDirectory() as folder,
        followed(
            groups, Path(folder), settle="4s", rest="15s", bound=BOUND, within=FOLLOWED_SECONDS
        )
        if follow
        else nullcontext() as running,
    ):
        began = time.monotonic()
        _change_members(groups, seconds)
        ended = time.monotonic()
        settled: Callable[[], bool] = (
            groups.is_followed if follow else lambda: groups.shares() is not None
        )
        # Connect rebalances once more some time after a worker has left.
        for _ in range(RESTS):
            wait_until(settled, FOLLOWED_SECONDS, "leaders are where they are read at rest")
            # What members had fetched before.
            groups.look_for(5.0)
            shares = groups.shares()
            sent, since = cluster.bytes_out(), time.monotonic()
            groups.look_for(REST_SECONDS)
            counted, until = cluster.bytes_out(), time.monotonic()
            if shares is not None and shares == groups.shares():
                break
        else:
            raise AssertionError("a group rebalances at rest")
        crossing = {key: count - sent[key] for key, count in counted.items()}
        local = sum(count for (rack, broker), count in crossing.items() if rack == RACKS[broker])
        elections = None
        if running is not None:
            elections = int(running.metric("leader_elections_last_hour"))
        for producer in groups.sent.values():
            producer.stop()
        return Report(
            tuple(
                Figures(
                    kind=group.kind,
                    changes=len(group.changed),
                    local_while_changing=groups.local(group, began, ended),
                    local_at_rest=groups.local(group, since, until),
                    best_at_rest=shares[group.id][1],
                    elections=groups.elections(group.topic, began),
                    lost=group.lost(groups.sent[group.topic]),
                    repeated=groups.repeated(group),
                )
                for group in groups.groups
            ),
            counted_local=local / sum(crossing.values()),
            best_local=sum(best for _, best in shares.values()) / len(shares),
            elections=elections,
        )


def _change_members(groups: Groups, seconds: float) -> None:
    """Replace a member of each group every CHANGE_SECONDS, of one group after the other."""
    ending = threading.Event()

    def change(index: int) -> None:
        group = groups.groups[index]
        # The same members with and without a controller.
        rng = random.Random(group.kind)
        at = time.monotonic() + index * CHANGE_SECONDS / len(groups.groups)
        while not ending.wait(max(at - time.monotonic(), 0.0)):
            group.replace_member(rng)
            at += CHANGE_SECONDS

    with ThreadPoolExecutor(len(groups.groups)) as pool:
        changing = [pool.submit(change, index) for index in range(len(groups.groups))]
        try:
            groups.look_for(seconds)
        finally:
            ending.set()
        for each in changing:
            each.result()


def main() -> None:
    """Run with the arguments of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kinds", nargs="+", choices=KINDS)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--one-topic", action="store_true", help="five kinds read one topic")
    parser.add_argument("--unfollowed", action="store_true", help="leaders do not move")
    options = parser.parse_args()
    kinds = options.kinds or (FIVE if options.one_topic else KINDS)
    report = measure(
        kinds,
        60 * options.minutes,
        one_topic=options.one_topic,
        follow=not options.unfollowed,
    )
    print(report)


if __name__ == "__main__":
    main()
