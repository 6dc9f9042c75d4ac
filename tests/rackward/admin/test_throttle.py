from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_core import InvalidOptionError, TopicPartition
from placement_core.cluster import Move
from rackward.admin import AdminConnection, TooOldError, UnreachableError
from rackward.admin import throttle as throttles
from rackward.admin.configs import Change, Op
from rackward.admin.errors import Deadline
from rackward.admin.throttle import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    BrokerThrottle,
    Mark,
    Rates,
    ReplicationThrottle,
    covering,
    entries,
    ours_in,
    uncovering,
)
from tests.support.simulated_cluster import apply_changes

rates = st.none() | st.integers(0, 2**62)
foreign = st.builds(lambda p, b: f"{p}:{b}", st.integers(0, 300), st.integers(0, 9))


@given(st.integers(1, 2**62), rates, rates)
def test_a_mark_says_all_in_its_name(ours: int, leader: int | None, follower: int | None) -> None:
    mark = Mark(ours, Rates(leader, follower))
    assert Mark.read(mark.key) == mark


@pytest.mark.parametrize(
    "key",
    [
        "leader.replication.throttled.rate",
        "rackward.throttle.5",
        "rackward.throttle.5.before.none",
        "rackward.throttle.x.before.none.none",
        "rackward.throttle.5.before.none.none.more",
    ],
)
def test_other_keys_are_no_marks(key: str) -> None:
    assert Mark.read(key) is None


@given(rates, rates, st.lists(st.integers(1, 2**62), min_size=1, max_size=3))
def test_lifting_restores_what_was_found_however_many_runs_were_killed(
    leader: int | None, follower: int | None, ours: list[int]
) -> None:
    found = {
        key: str(rate)
        for key, rate in ((LEADER_RATE, leader), (FOLLOWER_RATE, follower))
        if rate is not None
    }
    values = dict(found)
    for rate in ours:
        apply_changes(values, BrokerThrottle.of(values).setting(rate))
        assert values[LEADER_RATE] == values[FOLLOWER_RATE] == str(rate)
        assert len(BrokerThrottle.of(values).marks) == 1
    apply_changes(values, BrokerThrottle.of(values).lifting())
    assert values == found


def test_without_a_mark_nothing_is_lifted() -> None:
    assert BrokerThrottle.of({LEADER_RATE: "5"}).lifting() == []


def test_what_may_send_and_what_is_to_come_is_listed_with_a_zero_in_front() -> None:
    moves = [
        Move(TopicPartition("t", 0), (1, 2), (2, 3, 4)),
        Move(TopicPartition("t", 10), (1,), (5,)),
        Move(TopicPartition("t", 2), (1, 2), (2, 1)),
        Move(TopicPartition("u", 3), (1, 2), (1,)),
    ]
    assert entries(moves) == {
        "t": {
            LEADER_REPLICAS: ["00:1", "00:2", "010:1"],
            FOLLOWER_REPLICAS: ["00:3", "00:4", "010:5"],
        }
    }


def test_entries_are_added_once_and_not_to_a_list_of_everything() -> None:
    move = Move(TopicPartition("t", 0), (1,), (1, 2))
    lists = {"t": {LEADER_REPLICAS: "*", FOLLOWER_REPLICAS: "00:2,5:5"}}
    assert covering([move], lists) == {}
    assert covering([move], {"t": {FOLLOWER_REPLICAS: "0:2"}}) == {
        "t": [
            Change(LEADER_REPLICAS, Op.APPEND, "00:1"),
            Change(FOLLOWER_REPLICAS, Op.APPEND, "00:2"),
        ]
    }


def test_lists_that_kafka_would_not_take_are_refused() -> None:
    moves = [Move(TopicPartition("t", n), (1, 2, 3), (4,)) for n in range(2000)]
    with pytest.raises(InvalidOptionError, match="lower --batch-count"):
        covering(moves, {})
    assert covering(moves[:1000], {})


@given(
    st.lists(foreign, unique=True, max_size=6),
    st.sets(st.integers(0, 300), max_size=5),
    st.sets(st.integers(0, 300), max_size=3),
)
def test_our_entries_come_and_go_and_others_stay(
    others: list[str], ours: set[int], kept: set[int]
) -> None:
    before = {LEADER_REPLICAS: ",".join(others)} if others else {}
    values = dict(before)
    moves = [Move(TopicPartition("t", n), (0,), (0, 1)) for n in sorted(ours)]
    for changes in covering(moves, {"t": values}).values():
        apply_changes(values, changes)
    assert ours_in({"t": values}) == {move.partition for move in moves}
    keep = {TopicPartition("t", n) for n in kept}
    for changes in uncovering({"t": values}, keep).values():
        apply_changes(values, changes)
    assert ours_in({"t": values}) == {move.partition for move in moves} & keep
    for changes in uncovering({"t": values}).values():
        apply_changes(values, changes)
    assert values == before


# ---- Throttles where brokers hear of a change one after another.

MOVE = Move(TopicPartition("t", 0), (0,), (0, 1))


class Brokers:
    """Answers as brokers do, of whom each has yet to be asked so often until it hears of a change.

    ``nearest`` is who answers where nobody is named; ``away`` does not answer at all.
    """

    timeout = 1.0

    def __init__(self, *lags: int, away: int | None = None) -> None:
        self.nearest, self.away = 0, away
        self._lags = list(lags)
        self._late = [0 for _ in lags]
        self._now: dict[tuple[int, str], dict[str, str]] = {}
        self._before: list[dict[tuple[int, str], dict[str, str]]] = [{} for _ in lags]

    def deadline(self) -> Deadline:
        return Deadline.after(self.timeout)

    def ask(self, _: str, request: Any, *, node: int | None = None, deadline: Any = None) -> Any:
        broker = self.nearest if node is None else node
        if broker == self.away:
            assert deadline is None or deadline.seconds <= 1.0
            raise UnreachableError("nothing listens there")
        match type(request).__name__:
            case "MetadataRequest":
                known = [
                    SimpleNamespace(node_id=each, rack=None, host="h", port=1)
                    for each in range(len(self._lags))
                ]
                return SimpleNamespace(topics=[], brokers=known, cluster_id="c")
            case "DescribeClusterRequest":
                raise TooOldError("not this one")
            case "IncrementalAlterConfigsRequest":
                return self._change(request)
        return self._tell(broker, request)

    def _change(self, request: Any) -> Any:
        self._before = [self._heard(each) for each in range(len(self._lags))]
        self._late = list(self._lags)
        self._now = {place: dict(values) for place, values in self._now.items()}
        for each in request.resources:
            values = self._now.setdefault((each.resource_type, each.resource_name), {})
            for change in each.configs:
                values.pop(change.name, None)
                if change.value is not None:
                    values[change.name] = change.value
        return SimpleNamespace(responses=[])

    def _heard(self, broker: int) -> dict[tuple[int, str], dict[str, str]]:
        return self._before[broker] if self._late[broker] else self._now

    def _tell(self, broker: int, request: Any) -> Any:
        heard = self._heard(broker)
        self._late[broker] = max(0, self._late[broker] - 1)
        return SimpleNamespace(
            results=[
                SimpleNamespace(
                    error_code=0,
                    resource_name=each.resource_name,
                    configs=[
                        SimpleNamespace(name=key, value=value, config_source=3)
                        for key, value in heard.get(
                            (each.resource_type, each.resource_name), {}
                        ).items()
                    ],
                )
                for each in request.resources
            ]
        )


def throttle_of(brokers: Brokers) -> ReplicationThrottle:
    return ReplicationThrottle(cast("AdminConnection", brokers))


def test_what_was_set_is_found_at_whichever_broker_is_asked() -> None:
    brokers = Brokers(0, 3, 5)
    throttle = throttle_of(brokers)
    throttle.engage(50)
    throttle.cover([MOVE])
    brokers.nearest = 2
    assert [mark.ours for mark in throttle.found().marks] == [50]
    assert len(throttle.left(["t"])) == 2
    assert throttle.lift()


def test_a_broker_that_is_away_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttles, "_KNOWN_SECONDS", 0.2)
    brokers = Brokers(0, 0, 2, away=1)
    throttle = throttle_of(brokers)
    throttle.engage(50)
    brokers.nearest = 2
    assert throttle.found().marks
