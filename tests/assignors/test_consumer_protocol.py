"""Subscriptions of every version and of any bytes, user data, and assignments."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors.client_assignor import CooperativeStickyClientAssignor, RangeClientAssignor
from assignors.consumer_protocol import (
    USER_DATA_VERSION,
    ConsumerProtocolError,
    MemberSubscription,
    SubscriptionReader,
    write_user_data,
)
from tests.support.kafka_python import subscription_bytes

Claims = dict[str, list[int]]

OWNED = {"orders": [0, 3], "payments": [7]}
FULL = subscription_bytes(
    ["orders", "payments"], rack="a", owned=OWNED, generation=5, user_data=b""
)

topic_names = st.text("abcdefghij.-_", min_size=1, max_size=8)
claims = st.dictionaries(
    topic_names, st.lists(st.integers(-(2**31), 2**31 - 1), max_size=5), max_size=4
)
racks = st.none() | st.text(min_size=1, max_size=6)


def read(data: bytes) -> MemberSubscription:
    return SubscriptionReader().read(data)


def to_lists(owned: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    return {topic: list(partitions) for topic, partitions in owned.items()}


def fields(subscription: MemberSubscription) -> tuple[str | None, dict[str, list[int]], int]:
    """Return the rack, the owned partitions and the generation."""
    return subscription.rack, to_lists(subscription.owned), subscription.generation


NO_FIELDS: tuple[None, dict[str, list[int]], int] = (None, {}, -1)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_every_version_has_its_fields(version: int) -> None:
    subscription = read(
        subscription_bytes(
            ["orders", "payments"], version=version, rack="a", owned=OWNED, generation=5
        )
    )
    assert subscription.topics == {"orders", "payments"}
    assert fields(subscription) == (
        "a" if version >= 3 else None,
        OWNED if version >= 1 else {},
        5 if version >= 2 else -1,
    )
    assert subscription.errors == ()


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_user_data_has_the_fields_that_the_version_lacks(version: int) -> None:
    subscription = read(
        subscription_bytes(
            ["orders"], version=version, user_data=write_user_data("b", OWNED, 9), rack=None
        )
    )
    assert fields(subscription) == ("b", OWNED, 9)


def test_subscription_field_takes_precedence_over_user_data() -> None:
    other = write_user_data("b", {"x": [1]}, 9)
    subscription = read(
        subscription_bytes(["orders"], rack="a", owned=OWNED, generation=5, user_data=other)
    )
    assert fields(subscription) == ("a", OWNED, 5)


def test_a_later_version_is_read_as_version_3() -> None:
    later = b"\0\x64" + FULL[2:] + b"something of version 100"
    assert read(later) == read(FULL)


def test_user_data_without_rack_and_claims() -> None:
    assert write_user_data(None, {}, -1) == b"\x01" + b"\xff\xff" + b"\xff" * 4 + b"\0" * 4


# ---- Compatibility between releases. These bytes and names are sent by released versions: a change
# that makes one of the following tests fail needs a new protocol name, not a new expectation.

SENT_BY_RELEASES = {
    1: bytes.fromhex(
        "01"  # version
        "0003617a31"  # rack "az1"
        "00000007"  # generation 7
        "00000002"  # two topics
        "0006" "6f7264657273" "00000002" "00000000" "00000003"  # orders: 0, 3
        "0008" "7061796d656e7473" "00000001" "00000007"  # payments: 7
    ),
}  # fmt: skip


def test_the_user_data_of_every_release_is_read() -> None:
    for version, data in SENT_BY_RELEASES.items():
        assert data[0] == version
        user_data = SubscriptionReader().read_user_data(data)
        assert fields(user_data) == ("az1", OWNED, 7)
    assert write_user_data("az1", OWNED, 7) == SENT_BY_RELEASES[USER_DATA_VERSION]
    assert max(SENT_BY_RELEASES) == USER_DATA_VERSION


@pytest.mark.parametrize("version", [2, 3, 127])
def test_later_versions_begin_with_the_fields_of_every_release(version: int) -> None:
    later = bytes((version,)) + SENT_BY_RELEASES[1][1:] + b"\0\x05fields of a later release"
    assert SubscriptionReader().read_user_data(later) == SubscriptionReader().read_user_data(
        SENT_BY_RELEASES[1]
    )


@pytest.mark.parametrize("version", [0, 128, 255])
def test_user_data_of_impossible_version_is_ignored(version: int) -> None:
    excluded = bytes((version,)) + SENT_BY_RELEASES[1][1:]
    subscription = read(subscription_bytes(["orders"], version=0, user_data=excluded))
    assert subscription.topics == {"orders"}
    assert fields(subscription) == NO_FIELDS
    assert subscription.errors == (f"user data: unknown version {version}",)


def test_later_user_data_of_another_layout_is_ignored() -> None:
    # What the rule forbids: version 2 with the generation first. The group still settles.
    changed = b"\x02" + struct.pack(">ih", 7, 3) + b"az1"
    subscription = read(subscription_bytes(["orders"], version=0, user_data=changed))
    assert fields(subscription) == NO_FIELDS
    assert len(subscription.errors) == 1


def test_the_protocol_names_of_releases() -> None:
    names = {each.name for each in (CooperativeStickyClientAssignor, RangeClientAssignor)}
    assert names == {"leader-rack-aware-cooperative-sticky", "leader-rack-aware-range"}


@pytest.mark.parametrize("length", range(len(FULL)))
def test_a_truncated_subscription_claims_nothing(length: int) -> None:
    subscription = read(FULL[:length])
    assert subscription.topics in (frozenset(), frozenset({"orders", "payments"}))
    assert fields(subscription) == NO_FIELDS
    (error,) = subscription.errors
    assert error.startswith("subscription: ")


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff" + FULL[2:],
        struct.pack(">hi", 3, 2**31 - 1),
        struct.pack(">hi", 3, -1),
        struct.pack(">hi", 3, -7) + b"\0" * 40,
        struct.pack(">hih", 3, 1, -1),
        struct.pack(">hih", 3, 1, 2) + b"\xff\xfe",
        struct.pack(">hii", 0, 0, 2**31 - 1),
        struct.pack(">hii", 0, 0, -2),
        struct.pack(">hii", 0, 0, 3) + b"ab",
        struct.pack(">hiii", 1, 0, -1, 2**31 - 1) + b"\0" * 100,
        struct.pack(">hiiihsi", 1, 0, -1, 1, 1, b"t", 2**31 - 1) + b"\0" * 100,
        struct.pack(">hiiihsi", 1, 0, -1, 1, 1, b"t", -3) + b"\0" * 100,
        struct.pack(">hiiih", 1, 0, -1, 1, -30000) + b"\0" * 100,
    ],
    ids=range(13),
)
def test_wrong_lengths_allocate_no_memory(data: bytes) -> None:
    tracemalloc.start()
    subscription = read(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert subscription.errors
    assert not subscription.owned
    assert peak < 100_000


def test_a_megabyte_of_claims_takes_memory_in_proportion() -> None:
    data = subscription_bytes(["t"], owned={"t": range(250_000)})
    tracemalloc.start()
    subscription = read(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(subscription.owned["t"]) == 250_000
    assert peak < 20 * len(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_read(data: bytes) -> None:
    read(data)
    read(subscription_bytes(["t"], user_data=data))


@given(st.integers(0, len(FULL) - 1), st.binary(min_size=1, max_size=4))
def test_a_damaged_subscription_is_read(position: int, noise: bytes) -> None:
    read(FULL[:position] + noise + FULL[position + len(noise) :])


@given(racks, claims, st.integers(-1, 2**31 - 1))
def test_user_data_round_trip(rack: str | None, owned: Claims, generation: int) -> None:
    subscription = SubscriptionReader().read_user_data(write_user_data(rack, owned, generation))
    assert fields(subscription) == (rack, owned, generation)


@given(st.lists(topic_names, unique=True, max_size=4), racks, claims, st.integers(-1, 2**31 - 1))
def test_a_subscription_that_kafka_python_encoded_is_decoded(
    topics: list[str], rack: str | None, owned: Claims, generation: int
) -> None:
    reader = SubscriptionReader()
    data = subscription_bytes(topics, rack=rack, owned=owned, generation=generation)
    for _ in range(2):
        subscription = reader.read(data)
        assert subscription.topics == frozenset(topics)
        assert fields(subscription) == (rack, owned, generation)
    assert reader.read(data).topics is subscription.topics


@pytest.mark.parametrize("version", [1, 4])
def test_a_later_version_with_the_fields_of_version_0_is_no_error(version: int) -> None:
    """Members of kafka-go and of Faust send it."""
    plain = subscription_bytes(["orders"], version=0, user_data=b"az1")
    sent = struct.pack(">h", version) + plain[2:]
    subscription = SubscriptionReader().read(sent, user_data=False)
    assert (subscription.topics, subscription.errors) == (frozenset({"orders"}), ())


def test_claims_on_one_topic_in_two_entries_are_merged() -> None:
    twice = subscription_bytes(["t"], version=1, owned={"t": [1], "u": [2]}).replace(b"u", b"t")
    assert to_lists(read(twice).owned) == {"t": [1, 2]}


@pytest.mark.parametrize("data", [b"", b"\0", b"\x80abc", b"\x01", b"\x01\0\x05abc"])
def test_user_data_in_another_layout_is_an_error(data: bytes) -> None:
    with pytest.raises(ConsumerProtocolError):
        SubscriptionReader().read_user_data(data)


def test_only_partitions_in_user_data_are_released() -> None:
    user_data = write_user_data("b", {"orders": [1]}, 4)
    eager = read(subscription_bytes(["orders"], version=0, user_data=user_data))
    assert (eager.released, to_lists(eager.owned)) == (True, {"orders": [1]})
    both = read(subscription_bytes(["orders"], owned=OWNED, generation=9, user_data=user_data))
    assert (both.released, to_lists(both.owned), both.generation) == (False, OWNED, 9)
    assert not read(subscription_bytes(["orders"], owned=OWNED, user_data=b"\xff")).released
