"""The scenarios: what is done to a cluster and its groups, and when.

A scenario is data. Its steps are a tuple, or a function that draws them from a random generator
with the seed of the run, so that the same seed repeats them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from random import Random

GROUPS = ("kafka-python", "confluent", "aiokafka", "mixed")
"""Groups with rackward's assignors; members of "mixed" are of all three libraries."""

LED = ("stock", "java")
"""Groups of confluent's own and of Java consumers, which ``rackward lead`` leads."""

MEMBERS = 3
BROKERS = 3


class Action(StrEnum):
    """What a step does; ``target`` is the id of a broker or the number of a member."""

    KILL_BROKER = "kill broker"
    STOP_BROKER = "stop broker"
    PAUSE_BROKER = "pause broker"
    RESUME_BROKER = "resume broker"
    START_BROKER = "start broker"
    AWAIT_REPLICAS = "wait until all replicas are in sync"
    RENAME_RACK = "restart broker in another rack"
    KILL_CONTROLLER = "kill the active controller"
    START_CONTROLLER = "start the killed controller"
    ISOLATE_BROKER = "cut off broker"
    CUT_BROKERS = "cut the two brokers other than broker"
    CUT_CLIENTS = "cut the clients of rack a from broker"
    LOSE_PACKETS = "lose a tenth of the packets to broker"
    SLOW_BROKER = "limit to 200 kbit/s what is sent by broker"
    HEAL_NETWORK = "heal the network"
    FILL_DISK = "fill the disk of broker"
    UPGRADE_BROKER = "restart with the newest version broker"
    UPGRADE_CONTROLLER = "restart the controller with the newest version"
    MOVE_LEADERS = "move leaders at random"
    DELETE_TOPIC = "delete the topic"
    CREATE_TOPIC = "create the topic again"
    ADD_PARTITIONS = "add partitions"
    KILL_MEMBER = "kill member"
    START_MEMBER = "start member"
    SUSPEND_MEMBER = "suspend member"
    RESUME_MEMBER = "resume member"
    KILL_LEAD = "kill rackward lead"
    START_LEAD = "start rackward lead"
    SUSPEND_LEAD = "suspend rackward lead"
    RESUME_LEAD = "resume rackward lead"


BUSIEST = "the broker with the most leaders"
COORDINATOR = "the broker that coordinates the most groups"
LAST = "the broker that was chosen last"


@dataclass(frozen=True)
class Step:
    """``action`` at ``at`` seconds after the start, or as soon as the step before is done."""

    at: float
    action: Action
    target: int | str = ""

    def __str__(self) -> str:
        return f"{self.action} {self.target}".rstrip()


Steps = tuple[Step, ...]


@dataclass(frozen=True)
class ClusterNeeds:
    """The cluster of a scenario: processes unless ``docker``.

    ``data_size`` limits the disk of each broker. ``old`` brokers are of the oldest version.
    """

    controllers: int = 1
    docker: bool = False
    data_size: str | None = None
    old: bool = False


DOCKER = ClusterNeeds(docker=True)


@dataclass(frozen=True)
class Scenario:
    """A name, the steps, and what differs from the other scenarios.

    bound
        Seconds after which each partition has an owner and is read again.
    groups
        The groups that take part.
    commit_each
        Whether members commit each record by themselves; those of Java commit automatically.
    seconds
        No fault begins later, however busy the machine is.
    rate
        Records a second of all partitions; None is one of each partition.
    one_leader
        Whether broker 0 leads all partitions at the start.
    cluster
        The cluster that it needs; tests may use another one that has all that.
    """

    name: str
    steps: Steps | Callable[[Random], Steps]
    bound: float = 60.0
    groups: tuple[str, ...] = GROUPS + LED
    commit_each: bool = False
    one_leader: bool = False
    rate: float | None = None
    seconds: float = math.inf
    cluster: ClusterNeeds = ClusterNeeds()

    def drawn(self, seed: int) -> Steps:
        """Return the steps for a seed."""
        return self.steps(Random(seed)) if callable(self.steps) else self.steps


SESSION_SECONDS = 10.0
"""Session timeout of members."""

PAST_SESSION = 20.0
"""Seconds after which the session of a member that does not answer has certainly expired."""


def killed(at: float, target: int | str, down: float = 12.0) -> Steps:
    """Kill a broker, and start it after ``down`` seconds."""
    again = LAST if isinstance(target, str) else target
    return (Step(at, Action.KILL_BROKER, target), Step(at + down, Action.START_BROKER, again))


def rolling(*, hasty: bool) -> Steps:
    """Restart each broker: killed, and not waiting for its replicas, or in order."""
    stop = Action.KILL_BROKER if hasty else Action.STOP_BROKER
    return tuple(
        Step(0.0, action, broker)
        for broker in range(BROKERS)
        for action in (stop, Action.START_BROKER, *(() if hasty else (Action.AWAIT_REPLICAS,)))
    )


def member_restarted(number: int, kill_at: float, start_at: float) -> Steps:
    """Kill the member of each group, and start another one."""
    return (
        Step(kill_at, Action.KILL_MEMBER, number),
        Step(start_at, Action.START_MEMBER, number),
    )


ZOMBIE = (
    Step(0.0, Action.SUSPEND_MEMBER, 1),
    Step(PAST_SESSION, Action.RESUME_MEMBER, 1),
    Step(PAST_SESSION + 8.0, Action.SUSPEND_MEMBER, 0),
    Step(2 * PAST_SESSION + 8.0, Action.RESUME_MEMBER, 0),
)


SUSPENDED_WHILE_JOINING = (
    Step(0.0, Action.SUSPEND_MEMBER, 0),
    # A new member begins a rebalance, in which member 1 waits for the suspended one.
    Step(0.0, Action.KILL_MEMBER, 2),
    Step(2.0, Action.START_MEMBER, 2),
    Step(7.0, Action.SUSPEND_MEMBER, 1),
    # By now the rebalance has ended without member 0, and another one without member 1.
    Step(7.0 + PAST_SESSION, Action.KILL_MEMBER, 2),
    Step(7.0 + PAST_SESSION, Action.RESUME_MEMBER, 1),
    Step(7.0 + PAST_SESSION, Action.RESUME_MEMBER, 0),
    Step(9.0 + PAST_SESSION, Action.START_MEMBER, 2),
)


def random_members(random: Random) -> Steps:
    """Kill and suspend members for two minutes."""
    steps: list[Step] = []
    at = 0.0
    while at < 120.0:
        number = random.randrange(MEMBERS)
        if random.random() < 0.6:
            steps += member_restarted(number, at, at := at + random.uniform(1.0, 15.0))
        else:
            steps.append(Step(at, Action.SUSPEND_MEMBER, number))
            at += random.uniform(1.0, PAST_SESSION)
            steps.append(Step(at, Action.RESUME_MEMBER, number))
        at += random.uniform(2.0, 12.0)
    return tuple(steps)


def random_faults(
    random: Random, seconds: float = 120.0, pause: tuple[float, float] = (2.0, 10.0)
) -> Steps:
    """Kill, pause and restart brokers, kill and suspend members, and move leaders.

    ``pause`` is the shortest and the longest time between two faults, in seconds.
    """
    steps: list[Step] = []
    at = 0.0
    while at < seconds:
        broker, number = random.randrange(BROKERS), random.randrange(MEMBERS)
        down = random.uniform(1.0, 15.0)
        choice: tuple[Steps, ...] = (
            killed(at, broker, down),
            (
                Step(at, Action.PAUSE_BROKER, broker),
                Step(at + down, Action.RESUME_BROKER, broker),
            ),
            (Step(at, Action.STOP_BROKER, broker), Step(at + down, Action.START_BROKER, broker)),
            member_restarted(number, at, at + down),
            (
                Step(at, Action.SUSPEND_MEMBER, number),
                Step(at + down, Action.RESUME_MEMBER, number),
            ),
            (Step(at, Action.MOVE_LEADERS),),
        )
        steps += random.choice(choice)
        # min.insync.replicas is 2: one broker is down at a time, and back in sync before the next.
        steps.append(Step(at + down, Action.AWAIT_REPLICAS))
        at += down + random.uniform(*pause)
    return tuple(steps)


def _scenarios() -> Iterator[Scenario]:
    yield Scenario(
        "each-broker-killed",
        (
            *killed(0.0, 0),
            Step(0.0, Action.AWAIT_REPLICAS),
            *killed(30.0, 1),
            Step(0.0, Action.AWAIT_REPLICAS),
            *killed(60.0, 2),
        ),
    )
    yield Scenario("busiest-broker-killed", killed(0.0, BUSIEST), one_leader=True)
    yield Scenario("coordinator-killed", killed(0.0, COORDINATOR))
    yield Scenario("coordinator-killed-manual-commits", killed(0.0, COORDINATOR), commit_each=True)
    yield Scenario(
        "broker-hangs",
        (Step(0.0, Action.PAUSE_BROKER, 0), Step(15.0, Action.RESUME_BROKER, 0)),
    )
    yield Scenario("rolling-restart-slow", rolling(hasty=False))
    yield Scenario("rolling-restart-hasty", rolling(hasty=True))
    yield Scenario("member-killed", member_restarted(0, 0.0, PAST_SESSION))
    yield Scenario(
        "member-killed-manual-commits",
        member_restarted(0, 0.0, PAST_SESSION),
        commit_each=True,
    )
    yield Scenario(
        "all-members-killed",
        (
            *(Step(0.0, Action.KILL_MEMBER, number) for number in range(MEMBERS)),
            *(Step(2.0, Action.START_MEMBER, number) for number in range(MEMBERS)),
        ),
    )
    yield Scenario("zombie", ZOMBIE)
    yield Scenario("zombie-manual-commits", ZOMBIE, commit_each=True)
    yield Scenario(
        "member-suspended-within-session",
        (Step(0.0, Action.SUSPEND_MEMBER, 1), Step(4.0, Action.RESUME_MEMBER, 1)),
    )
    yield Scenario("members-suspended-while-joining", SUSPENDED_WHILE_JOINING, commit_each=True)
    yield Scenario("members-at-random", random_members, commit_each=True)
    yield Scenario("faults-at-random", random_faults, bound=90.0, commit_each=True)
    yield Scenario(
        "elections-each-second",
        tuple(Step(float(second), Action.MOVE_LEADERS) for second in range(20)),
    )
    yield Scenario(
        "topic-recreated",
        (Step(0.0, Action.DELETE_TOPIC), Step(5.0, Action.CREATE_TOPIC)),
    )
    yield Scenario("partitions-added", (Step(0.0, Action.ADD_PARTITIONS, 3),))
    yield Scenario(
        "controller-failover",
        (
            Step(0.0, Action.KILL_CONTROLLER),
            Step(3.0, Action.MOVE_LEADERS),
            Step(10.0, Action.START_CONTROLLER),
        ),
        cluster=ClusterNeeds(controllers=3),
    )
    yield Scenario("rack-renamed", (Step(0.0, Action.RENAME_RACK, 0),))
    yield Scenario(
        "lead-killed",
        (Step(0.0, Action.KILL_LEAD), Step(PAST_SESSION, Action.START_LEAD)),
        groups=LED,
    )
    yield Scenario(
        "lead-suspended",
        (Step(0.0, Action.SUSPEND_LEAD), Step(PAST_SESSION, Action.RESUME_LEAD)),
        groups=LED,
    )
    yield Scenario(
        "broker-upgraded",
        (
            Step(0.0, Action.UPGRADE_CONTROLLER),
            *(
                Step(0.0, action, broker)
                for broker in range(BROKERS)
                for action in (Action.UPGRADE_BROKER, Action.AWAIT_REPLICAS)
            ),
        ),
        cluster=ClusterNeeds(old=True),
    )
    yield from _on_containers()


def _on_containers() -> Iterator[Scenario]:
    yield _until_healed("rack-cut-off", 45.0, (Action.ISOLATE_BROKER, 0))
    yield _until_healed("two-racks-cut-from-each-other", 60.0, (Action.CUT_BROKERS, 2))
    yield _until_healed("members-cut-from-a-rack", 40.0, (Action.CUT_CLIENTS, COORDINATOR))
    for name, action in (
        ("lossy-network", Action.LOSE_PACKETS),
        ("slow-network", Action.SLOW_BROKER),
    ):
        yield _until_healed(name, 40.0, *((action, broker) for broker in range(BROKERS)))
    yield Scenario(
        "disk-full",
        (
            Step(0.0, Action.FILL_DISK, 0),
            # It has shut down by itself; its disk is empty when it starts again.
            Step(30.0, Action.KILL_BROKER, 0),
            Step(30.0, Action.START_BROKER, 0),
        ),
        bound=120.0,
        cluster=ClusterNeeds(docker=True, data_size="96m"),
    )


def _until_healed(name: str, seconds: float, *faults: tuple[Action, int | str]) -> Scenario:
    """Return a scenario of faults of the network, all at once, for so long."""
    steps = (*(Step(0.0, *fault) for fault in faults), Step(seconds, Action.HEAL_NETWORK))
    # Followers that do not fetch are removed from the replicas in sync after 30 s, and records
    # are readable only then.
    return Scenario(name, steps, bound=120.0, cluster=DOCKER)


def soak(seconds: float, rate: float) -> Scenario:
    """Return a scenario of random faults for so long, while ``rate`` records a second are sent.

    They are further apart than in other scenarios, so that most members live for minutes: their
    memory is measured.
    """
    steps = partial(random_faults, seconds=seconds, pause=(10.0, 30.0))
    return Scenario("soak", steps, bound=120.0, rate=rate, seconds=seconds)


SCENARIOS = {scenario.name: scenario for scenario in _scenarios()}
