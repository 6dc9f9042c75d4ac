"""Rates: from offsets and sizes of logs to bytes per second of a group."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_core import TopicPartition
from rackward.groups.reading import (
    ASSUMED_RECORD_BYTES,
    RateSource,
    Sample,
    begins_within_day,
    measured_rates,
    rates_of_logs,
)
from rackward.kafka.tolerant_reader import Logs

OLD, YOUNG, EMPTY, UNSIZED = (TopicPartition("t", number) for number in range(4))
LOGS = Logs(
    starts={OLD: 100, YOUNG: 40, EMPTY: 7, UNSIZED: 0},
    ends={OLD: 1100, YOUNG: 440, EMPTY: 7, UNSIZED: 10},
    sizes={OLD: 2_000_000, YOUNG: 40_000, EMPTY: 0},
)


def test_rates_are_of_a_day_or_of_an_hour_for_young_logs() -> None:
    day = {OLD: 600, YOUNG: 40, UNSIZED: 0}
    assert begins_within_day(LOGS, day) == [YOUNG, UNSIZED]
    rates = rates_of_logs(LOGS, day, hour={YOUNG: 404})
    expected = {OLD: 500 * 2000 / 86_400, YOUNG: 36 * 100 / 3600, EMPTY: 0.0, UNSIZED: 0.0}
    assert rates.written == pytest.approx(expected)
    assert rates.unsized == 1
    assert rates.of("any") == (rates.written, RateSource.LOGS)


def test_a_log_without_records_of_the_last_day_has_no_rate() -> None:
    assert rates_of_logs(LOGS, {}, {}).written == dict.fromkeys(LOGS.ends, 0.0)


def test_records_of_logs_without_a_size_have_an_assumed_size() -> None:
    rates = rates_of_logs(LOGS, {UNSIZED: 0}, {UNSIZED: 4})
    assert rates.written[UNSIZED] == pytest.approx(6 * ASSUMED_RECORD_BYTES / 3600)


BEFORE = Sample(
    LOGS,
    {
        "reads": {OLD: 600, YOUNG: 440},
        "idle": {OLD: 1100},
        "reset": {OLD: 1000, YOUNG: 400},
        "gone": {OLD: 1},
    },
    logs_at=50.0,
    committed_at=51.0,
)
AFTER = Sample(
    replace(
        LOGS,
        ends={**LOGS.ends, OLD: 1200, YOUNG: 450},
        # The records of OLD that were written meanwhile are smaller; a segment of YOUNG is deleted.
        sizes={**LOGS.sizes, OLD: 2_050_000, YOUNG: 8200},
    ),
    {
        "reads": {OLD: 900, YOUNG: 450, EMPTY: 7},
        "idle": {OLD: 1100},
        "reset": {OLD: 100, YOUNG: 410},
        "new": {OLD: 1200},
    },
    logs_at=60.0,
    committed_at=61.0,
)


def test_measured_rates_are_of_commits_else_of_writes() -> None:
    rates = measured_rates(BEFORE, AFTER)
    assert rates.measured_seconds == 10.0
    young_record = 8200 / (450 - 40)
    written = {OLD: 100 * 500 / 10, YOUNG: 10 * young_record / 10, EMPTY: 0.0, UNSIZED: 0.0}
    assert rates.written == pytest.approx(written)
    reads, source = rates.of("reads")
    assert source is RateSource.COMMITTED
    assert reads == pytest.approx({OLD: 300 * 500 / 10, YOUNG: 10 * young_record / 10})
    # A reset to an earlier offset reads nothing by itself.
    assert rates.of("reset")[0] == pytest.approx({OLD: 0.0, YOUNG: 10 * young_record / 10})
    for name in ("idle", "new", "gone", "never"):
        assert rates.of(name) == (rates.written, RateSource.WRITTEN)


def test_samples_at_the_same_moment_do_not_divide_by_zero() -> None:
    assert measured_rates(BEFORE, BEFORE).written == dict.fromkeys(LOGS.ends, 0.0)
