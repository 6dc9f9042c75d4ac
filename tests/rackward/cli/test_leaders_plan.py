"""Options of ``rackward leaders plan`` that are checked before it connects."""

from __future__ import annotations

import pytest

from placement_core import InvalidOptionError
from placement_core.leaders import CurrentAssignment, plan_leaders
from rackward.cli import leaders_plan as plan
from rackward.cli.main import app
from tests.support.simulated_cluster import cluster_state

# No such host can be resolved: connecting would raise another error.
SERVER = ("--bootstrap-server", "nowhere.invalid:9092")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "specify --group (repeatable) or --readers"),
        (("--group", "g", "--readers", "a=1"), "specify --group (repeatable) or --readers"),
        (("--readers", "a=1"), "--readers needs --topics"),
        (("--readers", "a=x", "--topics", "t"), "--readers a=x: write RACK=NUMBER"),
        (("--readers", "a=-1", "--topics", "t"), "--readers a=-1: a number of consumers is neg"),
        (("--readers", "a=0", "--topics", "t"), "--readers a=0: give at least one consumer"),
        (("--readers", "a=1", "--topics", "t", "--mapping", "h=a"), "--mapping is for the memb"),
        (("--group", "g", "--mapping", "10.0.0.0/33=a"), "--mapping: '10.0.0.0/33' is not a val"),
        (
            ("--readers", "a=1", "--topics", "t", "--assignment", "rackward"),
            "--assignment is that",
        ),
        (("--group", "g", "--format", "kafka"), "--format kafka needs --output FILE"),
    ],
)
def test_bad_options_are_errors_before_connecting(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(InvalidOptionError) as error:
        app(["leaders", "plan", *SERVER, *arguments], standalone_mode=False)
    assert message in str(error.value)


def test_the_reasons_name_what_helps() -> None:
    view = cluster_state({"orders": [(0, 2), (0, 2), (0, 2)], "fixed": [(0, 2)]}).view
    owners = dict(zip(sorted(view.replicas), ("b", "c", None, "e"), strict=True))
    group = CurrentAssignment("g", frozenset({"orders", "fixed"}), owners)
    layout = plan_leaders(view, assignments=[group], topics=["orders"])
    notes = list(plan.unmet_notes(layout, view))
    assert sorted(notes) == [
        "g: 1 partition not local: the racks of their members are unknown; see --mapping.",
        "g: 1 partition not local: their members are in rack e, which has no brokers.",
        "g: 1 partition not local: their topics are not selected; see --topics and --exclude.",
        "g: 1 partition not local: they have no replica in their members' rack c; to add one: "
        "rackward placement plan --topics orders --replication-factor 3.",
    ]
    shown = plan.layout_result(layout)
    assert shown.leader_limit is None
    assert {row.reason.value: row.partitions for row in shown.unmet} == {
        "not-selected": {"fixed": [0]},
        "no-replica-in-rack": {"orders": [0]},
        "rackless-member": {"orders": [1]},
        "no-broker-in-rack": {"orders": [2]},
    }
