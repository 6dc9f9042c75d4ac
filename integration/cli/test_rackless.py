"""A first run on live groups that send no rack: nothing of what they read is known to cross racks.

One group of another client sends racks, so that local, across and unknown all occur.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from integration.cli.conftest import wait_until_stable
from integration.support.clients import partitions_of
from integration.support.collecting import with_stable_state
from integration.support.command_line import one_line, rackward, running
from integration.support.confluent import StockConfluent
from integration.support.groups import ConsumerGroup
from integration.support.leading import member_ids
from integration.support.racks import off_rack
from integration.support.topics import create_topic, delete_topic, fill, new_name
from rackward.kafka.groups import leads_for_rackward
from rackward.testing import Cluster

PARTITIONS = 6
ROWS = [[n % 3, (n + 1) % 3, (n + 2) % 3] for n in (0, 0, 0, 0, 1, 2)]
NAMES = ("rdkafka-1", "rdkafka-2")
RACKLESS = 2
"""Groups that send no rack."""


Groups = tuple[str, list[ConsumerGroup]]
"""A topic and its groups; the last one sends racks."""


@pytest.fixture(scope="module")
def groups(shared_three_brokers: Cluster) -> Iterator[Groups]:
    """Two groups that send no rack, and one that does; each reads all partitions of a topic."""
    cluster = shared_three_brokers
    topic = create_topic(cluster, new_name("rackless"), ROWS)
    made: list[ConsumerGroup] = []
    with ExitStack() as stack:
        stack.callback(delete_topic, cluster, topic)
        fill(cluster, topic, PARTITIONS, 20, size=1000)
        for number in range(RACKLESS + 1):
            group = ConsumerGroup(cluster, topics=[topic], client=StockConfluent("range"))
            made.append(stack.enter_context(group))
            for name, rack in zip(NAMES, ("a", "b"), strict=True):
                group.start(name, rack if number == RACKLESS else None)
        for group in made:
            group.settle(partitions_of(topic, PARTITIONS), hold=1.0)
        wait_until_stable(cluster, [group.id for group in made], len(NAMES))
        yield topic, made


def of(groups: list[ConsumerGroup], document: Any) -> list[Any]:
    """Return the rows of the groups, in their order."""
    rows = {row["group"]: row for row in document["groups"]}
    return [rows[group.id] for group in groups]


def test_what_groups_without_racks_read_is_unknown(
    shared_three_brokers: Cluster, groups: Groups, tmp_path: Path
) -> None:
    cluster, (topic, made) = shared_three_brokers, groups
    names, known = [group.id for group in made], made[RACKLESS]
    expected = partitions_of(topic, PARTITIONS)

    def count() -> int:
        owned = known.settle(expected, hold=0.0)
        return off_rack(cluster, owned, dict(zip(NAMES, ("a", "b"), strict=True)))

    across, document = with_stable_state(
        count, lambda: rackward(cluster, "audit", *names, "--json").json
    )
    *rackless, row = of(made, document)
    for each in rackless:
        assert (each["local"], each["now"]["off_rack"], each["unknown"]) == (0, 0, PARTITIONS)
        for figure in ("now", "assignor", "layout"):
            assert each[figure]["unknown_partitions"] == each["partitions"] == PARTITIONS
        assert each["rackless_hosts"] == ["127.0.0.1"]
        kinds = [step["kind"] for step in each["steps"]]
        assert kinds == ["set-client-rack", "map-hosts"]
    assert (row["local"], row["now"]["off_rack"], row["unknown"]) == (
        *(PARTITIONS - across, across, 0),
    )
    now = document["totals"]["now"]
    assert [now[name] for name in ("local", "off_rack", "unknown_partitions")] == [
        *(PARTITIONS - across, across, RACKLESS * PARTITIONS),
    ]
    first = document["steps"][:2]
    assert first[0]["text"].startswith(f"{RACKLESS} groups send no rack")
    assert first[0]["lines"] == ['librdkafka: "client.rack": "RACK"']
    assert first[1]["lines"] == ["--mapping 127.0.0.1=RACK"]

    rackward(cluster, "audit", *names, "--html", tmp_path / "audit.html")
    page = (tmp_path / "audit.html").read_text()
    text = rackward(cluster, "audit", *names).out
    unknown = f"{RACKLESS * PARTITIONS} partitions, "
    for shown in (text, page):
        assert f"Rack unknown: {unknown}" in " ".join(shown.split())
        assert f"({RACKLESS} groups send no rack)" in shown
        assert "--mapping 127.0.0.1=RACK" in shown
    listed = rackward(cluster, "groups", "list", names[0]).out
    assert re.search(rf"\b2 +{PARTITIONS} +0 +0 +{PARTITIONS} +unknown\b", listed), listed


def test_explain_and_the_mapping_that_it_prints(
    shared_three_brokers: Cluster, groups: Groups
) -> None:
    cluster, name = shared_three_brokers, groups[1][0].id
    shown = rackward(cluster, "groups", "explain", name, "--json").json
    counts = [shown[each] for each in ("local", "off_rack", "unknown", "optimum")]
    assert counts == [0, 0, PARTITIONS, 0]
    text = " ".join(rackward(cluster, "groups", "explain", name).out.split())
    assert "Locality now unknown" in text
    assert "At best unknown" in text
    assert "(rackless-member)" in text
    (line,) = [each["lines"] for each in shown["rack_steps"] if each["kind"] == "map-hosts"]
    option, value = line[0].split()
    mapped = rackward(
        cluster, "groups", "explain", name, option, value.replace("RACK", "a"), "--json"
    ).json
    # Both are in rack a, which leads four of six.
    assert [mapped[each] for each in ("local", "off_rack", "unknown")] == [4, 2, 0]


def test_a_dry_run_says_that_there_is_nothing_to_gain(
    shared_three_brokers: Cluster, groups: Groups
) -> None:
    cluster, name = shared_three_brokers, groups[1][0].id
    (row,) = rackward(cluster, "lead", name, "--dry-run", "--json").events
    assert row["reason"].startswith("nothing to gain yet: its members send no rack")
    assert row["reason"].endswith("--mapping 127.0.0.1=RACK")
    assert [row[each] for each in ("local", "off_rack", "unknown")] == [0, 0, PARTITIONS]
    remove = ("--take-over", "remove")
    (row,) = rackward(cluster, "lead", name, "--dry-run", *remove, "--json").events
    assert (row["removes"], row["action"]) == (0, "join, and lead when its leader leaves")
    # Leaders of four are in rack a, and range gives each member three.
    mapping = (
        "--mapping",
        ",".join(f"{each}={rack}" for each, rack in zip(NAMES, "ba", strict=True)),
    )
    (row,) = rackward(cluster, "lead", name, "--dry-run", *remove, *mapping, "--json").events
    assert row["reason"] == ""
    assert row["removes"] in (1, 2)
    assert "of 2 members, and lead: its leader, which brokers do not name" in row["action"]


def test_a_group_that_has_nothing_to_gain_is_not_taken_over(
    shared_three_brokers: Cluster, groups: Groups
) -> None:
    cluster, name = shared_three_brokers, groups[1][0].id
    before = member_ids(cluster, name)
    with running(cluster, "lead", name, "--take-over", "remove", "--yes", "--json") as lead:
        lead.until(lambda line: '"state": "waiting"' in line)
        wait_until_stable(cluster, [name], len(NAMES))
        (waiting,) = member_ids(cluster, name) - before
        assert leads_for_rackward(waiting)
        assert before < member_ids(cluster, name)
    assert "waiting until that leaves the group" in lead.lines[-1]


def test_a_name_of_no_group_is_an_error_or_a_warning(shared_three_brokers: Cluster) -> None:
    cluster, name = shared_three_brokers, new_name("mistyped")
    dry = rackward(cluster, "lead", name, "--dry-run", status=2)
    assert "join, and lead from the first consumer on" in dry.out
    assert f"no such group in 5 s: {name}: check the name" in dry.err
    # A pattern may match groups that come later.
    rackward(cluster, "lead", f"{name}*", "--dry-run")
    # Without a terminal nobody can be asked.
    refused = rackward(cluster, "lead", name, status=2)
    assert "stdin is not a terminal: pass --yes" in one_line(refused)
    with running(cluster, "lead", name, "--yes") as lead:
        assert lead.process.stderr is not None
        assert any(f"no such group: group={name}" in line for line in lead.process.stderr)
        assert any(
            "state=outside reason=no such group: check the name" in line
            for line in lead.process.stderr
        )
