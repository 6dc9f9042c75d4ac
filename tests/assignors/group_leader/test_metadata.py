"""When members and brokers have no rack in common, and what is said then."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from kafka.util import ensure_valid_topic_name

from assignors.group_leader import is_topic_name
from assignors.group_leader.logs import shown, some
from assignors.group_leader.metadata import racks_apart

NAMES = ["us-east-1a", "us-east-1b"]
IDS = ["use1-az1", "use1-az2"]
HINT = "names of AWS zones"


def test_both_lists_are_named_each_rack_once() -> None:
    told = racks_apart(["x", "y", None, "x"], ["b", "a", "", "b"])
    assert told == (
        "no member is in a rack of the brokers: members say x, y; brokers a, b;"
        " everything is read across racks"
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
        ([*NAMES, "a"], [*IDS, "a"]),
    ],
)
def test_nothing_to_say(members: Sequence[str | None], brokers: Sequence[str | None]) -> None:
    assert racks_apart(members, brokers) is None


@pytest.mark.parametrize(
    ("members", "brokers"),
    [(["A"], ["a"]), (["/dc1/r"], ["/dc2/r"]), (["rack-1"], ["1"]), (["a "], ["a"])],
)
def test_apart_without_a_hint(members: list[str], brokers: list[str]) -> None:
    told = racks_apart(members, brokers)
    assert told is not None
    assert HINT not in told


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("us-east-1a", "use1-az1"),
        ("eu-central-1c", "euc1-az3"),
        ("ap-northeast-1d", "apne1-az4"),
        ("us-gov-west-1b", "usgw1-az2"),
        ("us-west-2-lax-1a", "usw2-lax1-az1"),
    ],
)
def test_names_of_zones_against_ids(name: str, identifier: str) -> None:
    for members, brokers, who in (
        ([name], [identifier], "the brokers' are ids"),
        ([identifier, "other"], [name, "another"], "the members' are ids"),
    ):
        told = racks_apart(members, brokers)
        assert told is not None
        assert HINT in told
        assert who in told
        assert "RACKWARD_RACK_FROM=aws-zone-id" in told


@pytest.mark.parametrize(
    ("members", "brokers"),
    [
        (NAMES, ["europe-west1-b"]),
        (["eastus-1"], ["westeurope-2"]),
        (NAMES, ["us-west-2a"]),
        (IDS, ["usw2-az1"]),
        (["us-east-1"], IDS),
    ],
)
def test_other_clouds_and_regions_are_no_such_trap(members: list[str], brokers: list[str]) -> None:
    told = racks_apart(members, brokers)
    assert told is not None
    assert HINT not in told


def test_a_peer_cannot_fill_the_log_or_forge_a_line() -> None:
    told = racks_apart([f"{i}\n" + "x" * 32_000 for i in range(5000)], ["a\r\nERROR forged"])
    assert told is not None
    assert len(told) < 1000
    assert told.isprintable()
    assert "and 4990 more" in told


@given(st.text(max_size=200), st.integers(4, 80))
def test_what_is_shown_fits_and_can_be_printed(text: str, most: int) -> None:
    told = shown(text, most)
    assert len(told) <= most
    assert told.isprintable()
    if text.isprintable() and len(text) <= most:
        assert told == text


def test_some() -> None:
    assert some([3, "b"]) == "3, b"
    assert some(list("abcd"), most=2) == "a, b and 2 more"


@given(st.text(max_size=6) | st.text("aZ0._-", max_size=300))
@example("")
@example(".")
@example("..")
@example("...")
@example("a" * 249)
@example("a" * 250)
@example("²")
def test_names_are_judged_as_by_kafka_python(name: str) -> None:
    # It lets a line's end pass at the end of a name, which brokers do not.
    assume(not name.endswith("\n"))
    try:
        ensure_valid_topic_name(name)
    except (TypeError, ValueError):
        assert not is_topic_name(name)
    else:
        assert is_topic_name(name)


def test_a_line_does_not_end_in_a_name() -> None:
    assert not is_topic_name("a\n")
