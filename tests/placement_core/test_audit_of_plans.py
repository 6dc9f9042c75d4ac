"""A planned layout has no findings about what the plan repairs."""

from __future__ import annotations

import pytest

from placement_core import ClusterView, InvalidOptionError
from placement_core.audit import Kind, audit
from placement_core.reassignment import plan_reassignment
from tests.support.reassignments import paths_of, random_case, satisfies_rack_rules


@pytest.mark.parametrize("block", range(5))
def test_a_planned_layout_satisfies_the_rules(block: int) -> None:
    for seed in range(block * 40, block * 40 + 40):
        case = random_case(seed)
        view = ClusterView(
            tuple(b for b in case.view.brokers if b.id not in case.drain), case.view.replicas
        )
        try:
            plan = plan_reassignment(view, replication_factor=case.replication_factor)
        except InvalidOptionError:
            continue
        after = audit(ClusterView(view.brokers, plan.target))
        assert not {f.kind for f in after.findings} & {
            Kind.RACK_RULE,
            Kind.UNDER_REPLICATED,
            Kind.OFFLINE,
            Kind.UNEVEN_REPLICAS,
        }, f"seed {seed}: {after.findings}"


@pytest.mark.parametrize("block", range(5))
def test_rack_rule_findings_match_the_definition(block: int) -> None:
    for seed in range(block * 40, block * 40 + 40):
        view = random_case(seed).view
        result = audit(view)
        violating = {p for f in result.findings if f.kind is Kind.RACK_RULE for p in f.partitions}
        if result.figures.against_rack_rules is None:
            assert not violating
            continue
        paths = paths_of(view.racks())
        for partition, row in view.replicas.items():
            if set(row) <= paths.keys():
                assert satisfies_rack_rules(row, paths) == (partition not in violating), (
                    f"seed {seed}"
                )
