"""What must be true of every leader layout, worked out from the layouts alone."""

from __future__ import annotations

from placement_core import ClusterView, TopicPartition
from placement_core.leaders import LeaderLayout, Readers
from tests.placement_core.leaders.oracle import local


def chosen(view: ClusterView, layout: LeaderLayout) -> dict[TopicPartition, int | None]:
    return {p: layout.order.get(p, row)[0] for p, row in view.replicas.items()}


def check_layout(view: ClusterView, readers: list[Readers], layout: LeaderLayout) -> None:
    """Only the order changes, and localities are what a balanced assignment can have."""
    for partition, row in layout.order.items():
        was = view.replicas[partition]
        assert sorted(row) == sorted(was), f"{partition}: {was} became {row}"
        behind = [broker for broker in was if broker != row[0]]
        assert list(row[1:]) == behind, f"{partition}: {was} became {row}: followers moved"
    changed = [p for p, row in layout.order.items() if view.replicas[p] != row]
    moved = [move.partition for move in layout.moves]
    assert moved == sorted(changed), f"moves of {moved}, not of {sorted(changed)}"
    by_name = {one.name: one for one in readers}
    today = {p: row[0] for p, row in view.replicas.items()}
    for one in layout.localities:
        reader = by_name[one.readers]
        count = sum(p.topic in reader.topics for p in view.replicas)
        assert one.partitions == count, f"{one.partitions} partitions, not {count}"
        before, after = local(view, reader, today), local(view, reader, chosen(view, layout))
        assert one.before == before, f"{one.before} local before, not {before}"
        assert one.after == after, f"{one.after} local after, not {after}"
