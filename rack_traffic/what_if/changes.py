"""What to change for each scenario of a group, in words: the advice of `rack_traffic.advice`."""

from __future__ import annotations

from collections.abc import Sequence

from placement_core import parse_rack
from rack_traffic.advice import (
    COOPERATIVE_STICKY,
    RANGE,
    ClientGroup,
    NextStep,
    follower_steps,
    layout_step,
    rack_steps,
    scenario_steps,
    steps_text,
)
from rack_traffic.output_tables import LEADER_LAYOUTS
from rack_traffic.what_if.cases import GroupCase, ScenarioAssignment

NO_CHANGE = "no change"


def change_text(
    case: GroupCase, scenario: ScenarioAssignment, layout_groups: Sequence[str]
) -> str | None:
    """Return what to change for the scenario; None if the group's client cannot have it, or if it
    is not to be had: Apache Kafka's assignors are local by chance only.

    ``layout_groups`` are the groups that leaders are laid out for together, sorted.
    """
    group = ClientGroup(
        case.group, case.type, case.assignor, tuple(case.clients[m.id] for m in case.members)
    )
    racks = sorted({rack for rack in case.racks.values() if rack and parse_rack(rack)})
    rackless = [case.clients[m.id] for m in case.members if parse_rack(m.rack) is None]
    # Racks first: without them nothing else is of use to these members.
    first = rack_steps(group, rackless, racks) if rackless and racks else ()
    steps = _steps(group, case, scenario.scenario, racks)
    if steps is None:
        return None
    if scenario.scenario in LEADER_LAYOUTS:
        if case.group != layout_groups[0]:
            text = steps_text((*first, *steps))
            of_first = f"with the leader layout of group {layout_groups[0]}"
            return f"{text}; {of_first}" if text else of_first
        others = layout_groups[1:]
        steps = (*steps, layout_step(case.group, others, moves=scenario.leader_moves))
    return steps_text((*first, *steps)) or NO_CHANGE


def _steps(
    group: ClientGroup, case: GroupCase, scenario: str, racks: Sequence[str]
) -> tuple[NextStep, ...] | None:
    match scenario:
        case "as_is" | "leader_layout":
            return ()
        case "rackward_range":
            return scenario_steps(group, RANGE)
        case "rackward_cooperative_sticky" | "rackward_after_leader_layout":
            return scenario_steps(group, COOPERATIVE_STICKY)
        case "rackward_by_bytes":
            return scenario_steps(group, COOPERATIVE_STICKY, by_bytes=True)
        case "follower_fetching":
            return follower_steps(group, racks, selected=case.racks.keys() <= case.selecting)
    return None
