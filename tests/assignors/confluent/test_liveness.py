from __future__ import annotations

from assignors.confluent.polling import Liveness


def test_an_application_that_polls_is_never_late() -> None:
    liveness = Liveness(10.0)
    now = 0.0
    liveness.answered(now)
    # It polls every 9.9 seconds; a knock is left a second after each poll.
    for _ in range(20):
        assert not liveness.should_knock(now + 0.9)
        assert liveness.should_knock(now + 1.0)
        liveness.knocks(now + 1.0)
        liveness.knocked(now + 1.0)
        assert not liveness.should_knock(now + 9)
        now += 9.9
        assert liveness.overdue(now) is None
        liveness.answered(now)


def test_one_that_stops_is_late_after_the_interval_and_the_time_between_knocks() -> None:
    liveness = Liveness(10.0)
    liveness.answered(100.0)
    liveness.knocks(101.0)
    liveness.knocked(101.0)
    assert liveness.overdue(111.0) is None
    late = liveness.overdue(111.5)
    assert late == 0.5
    liveness.answered(112.0)
    assert liveness.overdue(500.0) is None


def test_a_knock_that_waits_to_be_left_does_not_count_until_it_is() -> None:
    liveness = Liveness(1.0)
    liveness.answered(0.0)
    liveness.knocks(1.0)
    # A poll that was under way let it in only now.
    liveness.knocked(50.0)
    assert liveness.overdue(50.9) is None
    assert liveness.overdue(51.5) == 0.5


def test_a_knock_answered_while_it_is_left_is_answered() -> None:
    liveness = Liveness(1.0)
    liveness.knocks(1.0)
    liveness.answered(1.1)
    liveness.knocked(1.2)
    assert not liveness.waiting
    assert liveness.overdue(100.0) is None


def test_knocks_are_as_frequent_as_the_interval_asks() -> None:
    assert Liveness(300.0).every == 1.0
    assert Liveness(0.5).every == 0.05
