"""Options of ``rackward leaders plan`` that are checked before it connects."""

from __future__ import annotations

import pytest

from placement_core import Broker, ClusterView, InvalidOptionError, TopicPartition
from placement_core.leaders import CurrentAssignment, plan_leaders
from rackward.cli import leaders_plan as plan
from rackward.cli.leaders_plan import Partitioner, writer_demands
from rackward.cli.main import app
from tests.support.simulated_cluster import cluster_state

# No such host can be resolved: connecting would raise another error.
SERVER = ("--bootstrap-server", "nowhere.invalid:9092")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give either GROUP or --readers"),
        (("g", "--readers", "a=1"), "give either GROUP or --readers"),
        (("--readers", "a=1"), "--readers needs --topics"),
        (("--readers", "a=x", "--topics", "t"), "--readers a=x: write RACK=NUMBER"),
        (("--readers", "a=-1", "--topics", "t"), "--readers a=-1: a number of consumers is neg"),
        (("--readers", "a=0", "--topics", "t"), "--readers a=0: give at least one consumer"),
        (("--readers", "a=1", "--topics", "t", "--mapping", "h=a"), "--mapping is for the memb"),
        (("g", "--mapping", "10.0.0.0/33=a"), "--mapping: '10.0.0.0/33' is not a val"),
        (
            ("--readers", "a=1", "--topics", "t", "--assignment", "rackward"),
            "--assignment is that",
        ),
        (("g", "--max-byte-imbalance", "0.2"), "--max-byte-imbalance needs --weights"),
        (("g", "--format", "kafka"), "--format kafka needs --output FILE"),
        (("g", "--writers-cluster", "c"), "--writers-cluster needs --writers-from"),
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


def test_the_byte_limit_is_named() -> None:
    view = cluster_state({"t": [(0, 2), (0, 2)]}, ("a", "a", "b", "b")).view
    group = CurrentAssignment("g", frozenset("t"), dict.fromkeys(view.replicas, "a"))
    layout = plan_leaders(view, assignments=[group], max_byte_imbalance=1.0)
    assert list(plan.unmet_notes(layout, view)) == [
        "g: 1 partition not local: the brokers in rack a serve as many bytes as "
        "--max-byte-imbalance permits (the heaviest 2.00 times the mean)."
    ]
    shown = plan.layout_result(layout)
    assert (shown.unmet[0].reason.value, shown.heaviest_broker) == ("byte-limit", 2.0)


def test_writers_are_shares_of_each_topic() -> None:
    view = ClusterView((Broker(0, "a"),), {TopicPartition("t", n): (0,) for n in range(3)})
    given = ["a=6", "t:a=60,b=40"]
    [writer] = writer_demands(given, Partitioner.RACK_AWARE, {"t"}, view, {}, {})
    assert writer.written == {"t": {"a": pytest.approx(1.8), "b": pytest.approx(1.2)}}
    assert writer.rack_aware
    for wrong in ("a", "a=", "=3", "a=-1", "a=nan", "a=0", "x:a=1"):
        with pytest.raises(InvalidOptionError, match="--writers"):
            writer_demands([wrong], Partitioner.STOCK, {"t"}, view, {}, {})


def test_measured_writers_are_between_those_of_a_topic_and_of_all_others() -> None:
    view = ClusterView((Broker(0, "a"),), {TopicPartition(t, 0): (0,) for t in "tuv"})
    measured = {"t": {"b": 1.0}, "u": {"b": 1.0}, "x": {"b": 1.0}}
    demands = writer_demands(
        ["a=1", "t:c=1"], Partitioner.STOCK, {*"tuv"}, view, {TopicPartition("u", 0): 5.0}, measured
    )
    assert {each.name: each.written for each in demands} == {
        "--writers": {"t": {"c": 1.0}, "v": {"a": 1.0}},
        "measured": {"u": {"b": 5.0}},
    }
    groups = [CurrentAssignment("g", frozenset("tuv"), dict.fromkeys(view.replicas, "a"))]
    layout = plan_leaders(view, assignments=groups, writers=demands)
    assert [*plan.across_notes(layout)][:2] == [
        "Produced across racks: 50.0% now, 50.0% planned.",
        "Produced across racks (racks measured): 100.0% now, 100.0% planned.",
    ]
