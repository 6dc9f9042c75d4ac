"""Making topics and partitions, from the plan to the layout that is read back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from placement_core import RackwardError
from rackward.admin import AdminConnection, AdminError, ClusterState, read_state
from rackward.admin.topics import await_layout, make_partitions
from rackward.commands.asking import ask
from rackward.commands.output import for_people, print_json
from rackward.commands.placing_options import Placing
from rackward.commands.promises import Promises, intents_of
from rackward.commands.topic_plan import TopicsPlan
from rackward.commands.topic_plan_output import plan_json, show_plan

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
