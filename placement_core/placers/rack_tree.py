"""Rack paths as a tree whose leaves are brokers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from placement_core.racks import RackPath


@dataclass(frozen=True, slots=True)
class RackNode:
    """A data centre, a room, a rack: what stands below it, and in what order.

    ``path`` is () for the root. ``children`` are nodes and, for brokers that name this very
    rack, broker ids; ``sizes`` is how many brokers stand below each child, and ``child_of``
    has the index of the child that each broker below stands under. ``outside`` has the same for
    brokers that may hold replicas and get no new ones: they count in no size.
    """

    path: RackPath
    children: tuple[RackNode | int, ...]
    sizes: tuple[int, ...]
    child_of: Mapping[int, int]
    outside: Mapping[int, int]


def rack_tree(
    racks: Mapping[int, RackPath], outside: Mapping[int, RackPath], path: RackPath = ()
) -> RackNode:
    """The tree of the brokers in ``racks``, from ``path`` down; children by name, brokers by id.

    Brokers in ``outside`` are known to the nodes that they stand below.
    """
    below: dict[str, dict[int, RackPath]] = {}
    children: list[RackNode | int] = []
    for broker in sorted(racks):
        if len(racks[broker]) == len(path):
            children.append(broker)
        else:
            below.setdefault(racks[broker][len(path)], {})[broker] = racks[broker]
    names = sorted(below)
    number = {name: index for index, name in enumerate(names, len(children))}
    others: dict[str, dict[int, RackPath]] = {name: {} for name in names}
    for broker, rack in outside.items():
        if len(rack) > len(path) and rack[len(path)] in others:
            others[rack[len(path)]][broker] = rack
    children.extend(rack_tree(below[name], others[name], (*path, name)) for name in names)
    return RackNode(
        path,
        tuple(children),
        tuple(1 if isinstance(child, int) else len(child.child_of) for child in children),
        {
            broker: index
            for index, child in enumerate(children)
            for broker in ((child,) if isinstance(child, int) else child.child_of)
        },
        {broker: number[name] for name, group in others.items() for broker in group},
    )
