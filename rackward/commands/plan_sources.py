"""The plan that a command line names: a plan file, or Kafka's own JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from placement_core import InvalidLayoutError, InvalidOptionError, TopicPartition
from placement_core.moves import Move
from placement_core.reassignment import from_kafka_json
from rackward.admin import ClusterState
from rackward.plans import Plan, PlanFileError, PlanKind, from_text
from rackward.plans.files import name_of, read_text

ReassignmentFile = Annotated[
    str | None,
    typer.Option(
        "--reassignment-json-file",
        metavar="FILE",
        help="Instead of a plan: what kafka-reassign-partitions reads. It does not say what it "
        "was made from, so that only the target is checked.",
    ),
]


NeededPlan = Annotated[
    str, typer.Argument(metavar="PLAN", help="The plan's file; - is standard input.")
]


def load_plan(path: str, kind: PlanKind) -> Plan:
    """The plan in a file (``-``: standard input). Raises PlanFileError."""
    plan = from_text(name_of(path), read_text(path))
    if plan.kind is not kind:
        raise PlanFileError(
            f"{name_of(path)} is a plan of kind {plan.kind.value}: carry it out with rackward "
            f"{plan.kind.value} apply"
        )
    return plan


def load_target(path: str) -> dict[TopicPartition, tuple[int, ...]]:
    """The replica lists in Kafka's JSON. Raises PlanFileError, which names file and place."""
    try:
        return from_kafka_json(read_text(path))
    except InvalidLayoutError as error:
        if '"rackward_plan"' in read_text(path):
            raise PlanFileError(
                f"{name_of(path)} is a plan of rackward's: give it without --reassignment-json-file"
            ) from error
        raise PlanFileError(f"{name_of(path)}: {error}") from error


def one_of(plan: str | None, reassignment_file: str | None) -> None:
    """Raise InvalidOptionError unless exactly one is given."""
    if (plan is None) == (reassignment_file is None):
        raise InvalidOptionError("give PLAN, or --reassignment-json-file FILE: one of the two")


def moves_to(
    source: str, target: Mapping[TopicPartition, tuple[int, ...]], state: ClusterState
) -> tuple[Move, ...]:
    """The moves from where partitions are (before what is under way began) to a target.

    Raises PlanFileError for partitions and brokers that the cluster does not have.
    """
    live, moves = state.view.racks(), []
    for place, after in sorted(target.items()):
        name = f"{place.topic}-{place.partition}"
        now = state.view.replicas.get(place)
        if now is None:
            raise PlanFileError(f"{source}: the cluster has no partition {name}: take it out")
        if unknown := [broker for broker in after if broker not in live]:
            raise PlanFileError(
                f"{source}: {name} is to be on broker {unknown[0]}, which is not live: the cluster "
                f"has {', '.join(map(str, live))}"
            )
        ongoing = state.ongoing.get(place)
        adding = ongoing.adding if ongoing is not None else ()
        moves.append(Move(place, tuple(b for b in now if b not in adding), after))
    return tuple(moves)
