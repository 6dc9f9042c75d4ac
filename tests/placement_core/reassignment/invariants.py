"""What must be true of every reassignment, worked out from the layouts alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from placement_core import ClusterView, TopicPartition
from placement_core.reassignment import Reassignment
from tests.placement_core.reassignment.lawful import is_lawful, paths_of


def check_reassignment(
    view: ClusterView,
    wanted: Mapping[TopicPartition, int],
    drain: Collection[int],
    plan: Reassignment,
) -> None:
    """All checks; AssertionError with the offending values."""
    assert plan.target.keys() == wanted.keys(), "the target has other partitions than asked for"
    staying = {b: rack for b, rack in view.racks().items() if b not in drain}
    paths = paths_of(staying)
    for partition, replicas in plan.target.items():
        where = f"{partition.topic}-{partition.partition} on {replicas}"
        assert len(set(replicas)) == len(replicas), f"{where} repeats a broker"
        assert len(replicas) == wanted[partition], f"{where}: {wanted[partition]} were asked for"
        assert staying.keys() >= set(replicas), f"{where} uses a broker that is gone or drained"
        assert is_lawful(replicas, paths), f"{where} breaks the rack rules of {staying}"
        assert all(type(broker) is int for broker in replicas), f"{where} has no plain ints"
    check_moves(view, plan)


def check_moves(view: ClusterView, plan: Reassignment) -> None:
    """Moves and figures are the difference of the two layouts."""
    changed = {p: r for p, r in plan.target.items() if view.replicas[p] != r}
    moves = {move.partition: move for move in plan.moves}
    assert list(moves) == sorted(changed), f"moves of {list(moves)}, not of {sorted(changed)}"
    copies = changes = 0
    for partition, after in changes_of(plan).items():
        before = view.replicas[partition]
        assert moves[partition].before == before, f"{partition} starts from {before}"
        copies += len(set(after) - set(before))
        changes += after[0] != before[0]
    assert plan.copies == copies, f"plan.copies is {plan.copies}, the lists say {copies}"
    assert plan.leader_changes == changes, f"{plan.leader_changes} leader changes, not {changes}"


def changes_of(plan: Reassignment) -> dict[TopicPartition, tuple[int, ...]]:
    return {move.partition: move.after for move in plan.moves}


def squares_of(view: ClusterView, drain: Collection[int], plan: Reassignment) -> tuple[int, int]:
    """The sums of squared replicas and of squared preferred leaders per staying broker."""
    replicas: Counter[int] = Counter()
    leaders: Counter[int] = Counter()
    staying = view.racks().keys() - set(drain)
    for row in {**view.replicas, **plan.target}.values():
        replicas.update(staying & set(row))
        leaders.update(staying & {row[0]})
    return sum(n * n for n in replicas.values()), sum(n * n for n in leaders.values())
