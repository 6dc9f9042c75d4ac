"""Making topics and partitions, from the plan to the layout that is read back."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from rich.console import Console

from placement_core import InvalidOptionError, RackwardError, TopicPartition
from placement_core.under_replication import Wanted, held_by
from rackward.admin import AdminConnection, AdminError, ClusterState, UnauthorizedError, read_state
from rackward.admin.configs import (
    MIN_IN_SYNC,
    default_min_in_sync,
    min_in_sync,
    read_broker_configs,
    read_topic_configs,
)
from rackward.admin.topics import NewPartitions, await_layout, make_partitions
from rackward.cli.console import ask, for_people, print_json
from rackward.cli.options import Placing
from rackward.cli.render.topics import plan_json, show_plan
from rackward.controller.pending_replicas import (
    CONTROLLERS,
    INTENTS_TOPIC,
    Intent,
    IntentWriter,
    ensure_topic,
    layout_digest,
    read_intents,
    wanted_of,
)
from rackward.group_readers import find_groups
from rackward.topics.planner import TopicsPlan
from rackward.units import count_text

# ---- Intents around the making of topics with placeholders: written before, confirmed after.

_SHAPE = ("num.partitions", "default.replication.factor")


class Promises:
    """The intents of the topics that are made now, in a cluster that ``properties`` describe.

    Written before the topics are made: whatever breaks off in between, the controller sees what
    became of them. Without intents nothing is written, nor is their topic made.
    """

    def __init__(self, properties: Mapping[str, object], intents: Sequence[Intent]) -> None:
        self._properties, self._intents = properties, tuple(intents)
        self._writer: IntentWriter | None = None

    def record(self, admin: AdminConnection) -> None:
        """Write them. Raises AdminError; nothing is made then."""
        if not self._intents:
            return
        itself = ensure_topic(admin, read_state(admin, [INTENTS_TOPIC], ongoing=False))
        self._writer = IntentWriter(self._properties, admin.timeout)
        self._writer.write([*self._intents, *([itself] if itself is not None else [])])

    def settle(self, admin: AdminConnection, refused: Collection[str]) -> None:
        """Say which topics they are about, now that they have been made, and take back those of
        topics that the cluster did not make. Raises AdminError."""
        if self._writer is None:
            return
        over = [each.key for each in self._intents if each.topic in refused]
        made = [each for each in self._intents if each.topic not in refused]
        ids: Mapping[str, str | None] = {}
        if made:
            ids = read_state(admin, [each.topic for each in made], ongoing=False).topic_ids
        known = [replace(each, topic_id=ids[each.topic]) for each in made if each.topic in ids]
        self._writer.write(known, over)

    def tell(self, admin: AdminConnection, console: Console) -> None:
        """Say what was promised, and who is to keep it."""
        if not self._intents:
            return
        partitions = sum(len(each.open) for each in self._intents)
        console.print(
            f"{count_text(partitions, 'partition')} will get their missing replicas when brokers "
            "join: rackward controller sees to it."
        )
        live = read_state(admin, [], ongoing=False).view.racks()
        found = find_groups(admin, live, {CONTROLLERS}).get(CONTROLLERS)
        if found is None or not found.members:
            console.print(
                "No rackward controller runs for this cluster now: start one.", style="yellow"
            )

    def close(self) -> None:
        """Close the connections; again: nothing."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


def intents_of(wanted: Sequence[NewPartitions], state: ClusterState) -> tuple[Intent, ...]:
    """What is to be kept about partitions that are made with placeholders; `state` before."""
    down = frozenset(broker.id for broker in state.fenced)
    live = state.view.racks()
    made = []
    for each in wanted:
        factor = len(each.rows[0])
        stand_ins = down.intersection(broker for row in each.asked for broker in row)
        want = Wanted(factor, stand_ins)
        rows = {number: row for (_, number), row in sorted(each.layout.items())}
        short = {n: row for n, row in rows.items() if len(held_by(row, want, live)) < factor}
        if short:
            made.append(
                Intent(
                    id=secrets.token_hex(8),
                    topic=each.topic,
                    topic_id=state.topic_ids.get(each.topic),
                    replication_factor=factor,
                    open=tuple(sorted(short)),
                    layout=layout_digest(short),
                    stand_ins=stand_ins,
                )
            )
    return tuple(made)


def _wanted_now(
    properties: Mapping[str, object], state: ClusterState, timeout: float
) -> dict[TopicPartition, Wanted]:
    found = wanted_of(
        each
        for each in read_intents(properties, timeout).intents.values()
        if state.topic_ids.get(each.topic) == each.topic_id
    )
    return {place: want for place, want in found.items() if place in state.view.replicas}


def wanted_of_cluster(
    admin: AdminConnection, properties: Mapping[str, object], state: ClusterState
) -> tuple[dict[TopicPartition, Wanted], str | None]:
    """What the intents of a cluster want, for the topics in ``state`` (which need not have the
    intents' own); nothing where this user may not read them, and why. Raises AdminError."""
    try:
        # Kafka does not tell who may not know it whether a topic is there.
        if not _has_intents(admin, state):
            return {}, None
        return _wanted_now(properties, state, admin.timeout), None
    except UnauthorizedError as error:
        return {}, str(error)


def _has_intents(admin: AdminConnection, state: ClusterState) -> bool:
    """Whether the cluster has a topic of intents. Raises AdminError."""
    if INTENTS_TOPIC in state.topic_ids:
        return True
    return INTENTS_TOPIC in read_state(admin, [INTENTS_TOPIC], ongoing=False).topic_ids


def cluster_shape(admin: AdminConnection, state: ClusterState) -> tuple[int, int]:
    """The partitions and the replication factor of topics that say nothing, for a cluster that
    has too few brokers to tell by trying. Raises AdminError."""
    found = read_broker_configs(admin, _some_broker(state), _SHAPE)
    return int(found.get(_SHAPE[0], "1")), int(found.get(_SHAPE[1], "1"))


def least_of_new(admin: AdminConnection, state: ClusterState, configs: Mapping[str, str]) -> int:
    """min.insync.replicas of a new topic: its own, or else the cluster's. Raises AdminError."""
    own = configs.get(MIN_IN_SYNC)
    if own is None:
        return default_min_in_sync(admin, _some_broker(state))
    if not own.isdigit() or int(own) < 1:
        raise InvalidOptionError(f"{MIN_IN_SYNC} is {own!r}: give a whole number, 1 or more")
    return int(own)


def least_of_old(admin: AdminConnection, topics: Collection[str]) -> dict[str, int]:
    """min.insync.replicas of topics that there are. Raises AdminError."""
    return min_in_sync(read_topic_configs(admin, topics, [MIN_IN_SYNC]))


def _some_broker(state: ClusterState) -> int:
    return min(state.view.racks())


Planner = Callable[[AdminConnection, ClusterState], TopicsPlan]


def carry_out(
    command: str,
    admin: AdminConnection,
    planner: Planner,
    placing: Placing,
    *,
    every: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    verb: tuple[str, str],
    properties: Mapping[str, object],
) -> None:
    """Plan, let the brokers check, show, ask, do, read back and compare."""
    state = read_state(admin, ongoing=False)
    plan = planner(admin, state)
    if refused := make_partitions(admin, plan.wanted, validate_only=True):
        raise next(iter(refused.values()))
    console = for_people(as_json)
    show_plan(plan, placing, console, every=every)
    names = [wanted.topic for wanted in plan.wanted]
    if dry_run:
        console.print("Dry run: the brokers would accept this; nothing was changed.")
    else:
        several = f"these {len(names)} topics" if len(names) > 1 else f"topic {names[0]}"
        ask(f"{verb[0]} {several}?", yes)
        with closing(Promises(properties, intents_of(plan.wanted, state))) as promises:
            faults = _made(admin, plan, promises)
        _check(names, faults, verb[1])
        console.print(
            f"{verb[1].capitalize()} {', '.join(names)}; read back: the layout is the one planned.",
            style="green",
        )
        promises.tell(admin, console)
    if as_json:
        print_json(command, _outcome(plan, placing, changed=not dry_run))


def _made(admin: AdminConnection, plan: TopicsPlan, promises: Promises) -> dict[str, str]:
    """Make it, and look: topic to what is not as planned. Broken off, it says what may be."""
    names = " ".join(wanted.topic for wanted in plan.wanted)
    doubt = f"the request was sent, and may be carried out: see rackward topics describe {names}"
    promises.record(admin)
    try:
        refused = make_partitions(admin, plan.wanted)
        made = [wanted for wanted in plan.wanted if wanted.topic not in refused]
        faults = await_layout(admin, made) if made else {}
        promises.settle(admin, refused.keys())
    except AdminError as error:
        raise AdminError(f"{error}; {doubt}") from error
    except BaseException:
        sys.stderr.write(f"rackward: {doubt}\n")
        raise
    return {**{name: str(error) for name, error in refused.items()}, **faults}


def _outcome(plan: TopicsPlan, placing: Placing, *, changed: bool) -> dict[str, Any]:
    return {
        "dry_run": not changed,
        "changed": changed,
        "verified": True if changed else None,
        **plan_json(plan, placing),
    }


def _check(names: list[str], faults: dict[str, str], done: str) -> None:
    """Raise RackwardError that says which topics are as planned and what is wrong with others."""
    if not faults:
        return
    sound = [name for name in names if name not in faults]
    told = "; ".join(f"{name}: {fault}" for name, fault in faults.items())
    first = f"{done} as planned: {', '.join(sound)}; not so " if sound else ""
    raise RackwardError(f"{first}{told}; see rackward topics describe {' '.join(faults)}")
