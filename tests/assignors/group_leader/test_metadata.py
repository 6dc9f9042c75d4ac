"""Leaders from a client's metadata, topic names, and racks of members that no broker has."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from kafka.util import ensure_valid_topic_name

from assignors.group_leader import Leaders, is_topic_name
from assignors.group_leader.metadata import rack_mismatch
from assignors.kafka_python.coordinator import read_metadata
from tests.support.kafka_python import NO_LEADER, cluster_metadata

AWS_NAMES = ["us-east-1a", "us-east-1b"]
AWS_IDS = ["use1-az1", "use1-az2"]
AWS_HINT = "names of AWS zones"


def test_partition_without_leader_or_leader_rack_has_no_rack() -> None:
    racks = {0: "a", 1: None}
    metadata = cluster_metadata(racks, {"t": [0, 1, NO_LEADER, 7]})
    leaders, _ = read_metadata(metadata, ["t", "absent"])
    assert leaders == Leaders(
        racks={"t": ["a", None, None, None]},
        topics_without_metadata=frozenset({"absent"}),
        broker_racks=racks,
    )


def test_partitions_may_be_in_any_order() -> None:
    racks: dict[int, str | None] = {0: "a", 2: "b", 4: "c"}
    leaders, replicas = read_metadata(cluster_metadata(racks, {"t": {2: 4, 0: 0, 1: 2}}), ["t"])
    assert leaders.racks == {"t": ["a", "b", "c"]}
    assert {each.partition: each.leader for each in replicas} == {0: 0, 1: 2, 2: 4}


def test_topic_with_gaps_counts_as_one_without_metadata() -> None:
    racks: dict[int, str | None] = {0: "a", 2: "b", 4: "c"}
    metadata = cluster_metadata(racks, {"t": {0: 0, 3: 2, 9: 4}, "u": [0, 2]})
    leaders, replicas = read_metadata(metadata, ["t", "u"])
    assert leaders.racks == {"u": ["a", "b"]}
    assert leaders.topics_without_metadata == {"t"}
    assert {each.topic for each in replicas} == {"u"}


# Racks of members that no broker has.


def test_the_warning_lists_each_rack_of_both_sides_once() -> None:
    assert rack_mismatch(["x", "y", None, "x"], ["b", "a", "", "b"]) == (
        "no member is in a rack of the brokers, so every partition is read across racks:"
        " racks of members: x, y; racks of brokers: a, b"
    )


@pytest.mark.parametrize(
    ("members", "brokers"),
    [
        ([], ["a"]),
        (["a"], []),
        ([None, ""], ["a"]),
        (["a"], [None, ""]),
        (["/"], ["a"]),
        (["a", "x"], ["b", "a"]),
        (["/dc1/room2"], ["/dc1/room3"]),
        ([*AWS_NAMES, "a"], [*AWS_IDS, "a"]),
    ],
)
def test_no_warning_if_a_rack_is_common_or_racks_are_unknown(
    members: Sequence[str | None], brokers: Sequence[str | None]
) -> None:
    assert rack_mismatch(members, brokers) is None


@pytest.mark.parametrize(
    ("members", "brokers"),
    [
        (["A"], ["a"]),
        (["/dc1/r"], ["/dc2/r"]),
        (["rack-1"], ["1"]),
        (["a "], ["a"]),
        # Other clouds, other regions, and names or ids on both sides.
        (AWS_NAMES, ["europe-west1-b"]),
        (["eastus-1"], ["westeurope-2"]),
        (AWS_NAMES, ["us-west-2a"]),
        (AWS_IDS, ["usw2-az1"]),
        (["us-east-1"], AWS_IDS),
    ],
)
def test_other_mismatches_are_warned_of_without_the_aws_hint(
    members: list[str], brokers: list[str]
) -> None:
    warning = rack_mismatch(members, brokers)
    assert warning is not None
    assert AWS_HINT not in warning


@pytest.mark.parametrize(
    ("name", "zone_id"),
    [
        ("us-east-1a", "use1-az1"),
        ("eu-central-1c", "euc1-az3"),
        ("ap-northeast-1d", "apne1-az4"),
        ("us-gov-west-1b", "usgw1-az2"),
        ("us-west-2-lax-1a", "usw2-lax1-az1"),
    ],
)
def test_mixed_aws_zone_names_and_ids_get_a_hint(name: str, zone_id: str) -> None:
    for members, brokers, sides in (
        ([name], [zone_id], "racks of the members look like names of AWS zones, those of the brok"),
        (
            [zone_id, "other"],
            [name, "another"],
            "racks of the brokers look like names of AWS zones",
        ),
    ):
        warning = rack_mismatch(members, brokers)
        assert warning is not None
        assert AWS_HINT in warning
        assert sides in warning
        assert "RACKWARD_RACK_FROM=aws-zone-id" in warning


def test_racks_from_peers_are_cut_and_escaped() -> None:
    members = [f"{number}\n" + "x" * 32_000 for number in range(5000)]
    warning = rack_mismatch(members, ["a\r\nERROR forged"])
    assert warning is not None
    assert len(warning) < 1000
    assert warning.isprintable()
    assert "and 4990 more" in warning


# Topic names.


@given(st.text(max_size=6) | st.text("aZ0._-", max_size=300))
@example("")
@example(".")
@example("..")
@example("...")
@example("a" * 249)
@example("a" * 250)
@example("²")
def test_topic_names_are_those_that_kafka_python_accepts(name: str) -> None:
    # kafka-python accepts a line break at the end of a name, brokers do not.
    assume(not name.endswith("\n"))
    try:
        ensure_valid_topic_name(name)
    except (TypeError, ValueError):
        assert not is_topic_name(name)
    else:
        assert is_topic_name(name)


def test_a_topic_name_does_not_end_with_a_line_break() -> None:
    assert not is_topic_name("a\n")
