"""Leader layouts for what members own predict what an explanation of the group says."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from assignors.explain import RemedyKind
from placement_core import ClusterView, TopicPartition
from placement_core.leaders import Obstacle, plan_leaders
from rackward.groups.explain import explain_group
from rackward.groups.host_racks import HostRacks
from rackward.groups.readers import current_assignment
from tests.support.described_groups import group, member, random_group, random_state, view_of


@pytest.mark.parametrize("block", range(5))
def test_a_layout_predicts_the_explanation_before_and_after(block: int) -> None:
    improved = 0
    for seed in range(block * 20, block * 20 + 20):
        rng = random.Random(seed)
        view = random_state(rng).view
        leaders = view.known_leaders
        it = random_group(rng, view)
        assignment = current_assignment(it, HostRacks())
        layout = plan_leaders(view, assignments=[assignment])
        before = explain_group(it, view_of(it, view), HostRacks())
        if not before.explanation.partitions:
            assert layout.localities == ()
            continue
        (locality,) = layout.localities
        assert locality.partitions == before.explanation.partitions, f"seed {seed}"
        assert locality.before == before.explanation.local, f"seed {seed}"

        led = {**leaders, **{tp: row[0] for tp, row in layout.order.items()}}
        after_view = replace(view, replicas={**view.replicas, **layout.order}, leaders=led)
        after = explain_group(it, view_of(it, after_view), HostRacks()).explanation
        assert locality.after == after.local, f"seed {seed}"
        unread = sum(
            len(each.partitions) for each in layout.unmet if each.obstacle is Obstacle.UNREAD
        )
        assert unread == after.unread, f"seed {seed}"

        # The remedy has the same figure, and nothing is left of it afterwards.
        fits = {
            each.off_rack_after
            for finding in before.explanation.findings
            for each in finding.remedies
            if each.kind is RemedyKind.FIT_LEADERS
        }
        assert fits <= {after.off_rack}, f"seed {seed}"
        improved += locality.after > locality.before
        kinds = {each.kind for finding in after.findings for each in finding.remedies}
        assert RemedyKind.FIT_LEADERS not in kinds, f"seed {seed}"
        advised = {
            each.kind for finding in before.explanation.findings for each in finding.remedies
        }
        assert not advised & {RemedyKind.MOVE_LEADERS, RemedyKind.START_MEMBERS}
        assert it.type == "classic" or RemedyKind.REBALANCE not in advised
    assert improved > 2


def test_members_without_partitions_and_topics_that_do_not_exist() -> None:
    view = ClusterView((), {TopicPartition("t", 0): (0,)}, {})
    it = group(member("m", "a", topics=frozenset("t")), type="consumer", protocol="uniform")
    explanation = explain_group(it, view, HostRacks()).explanation
    assert (explanation.partitions, explanation.unread) == (1, 1)
    layout = plan_leaders(view, assignments=[current_assignment(it, HostRacks())])
    assert layout.moves == ()
    assert [each.obstacle for each in layout.unmet] == [Obstacle.UNREAD]
