"""The judgement of the script that runs confluent's own tests; the script itself takes minutes."""

from __future__ import annotations

import json

from integration.confluent.upstream_tests import (
    NOT_FINISHED,
    Outcome,
    judge,
    read_outcomes,
)

PASSED = Outcome("passed")
FAILED = Outcome("failed", "AssertionError: planted")


def lines(*reports: tuple[str, str, str]) -> list[str]:
    return [json.dumps(report) for report in reports]


def test_outcomes_of_several_reports() -> None:
    reports = lines(
        ("a", "started", ""),
        ("a", "passed", ""),
        ("b", "started", ""),
        ("b", "passed", ""),
        ("b", "failed", "AssertionError: planted"),
        ("c", "started", ""),
    )
    assert read_outcomes(reports) == {"a": PASSED, "b": FAILED, "c": NOT_FINISHED}


def test_a_test_that_fails_with_ours_alone_is_a_problem() -> None:
    assert judge({"a": PASSED}, {"a": PASSED}, {}, {}) == []
    assert judge({"a": FAILED}, {"a": FAILED}, {}, {}) == []
    assert judge({"a": PASSED}, {"a": FAILED}, {}, {}) == [
        "a fails with rackward's: AssertionError: planted"
    ]
    assert judge({"a": PASSED}, {"a": Outcome("skipped", "none")}, {}, {}) == [
        "a fails with rackward's: none"
    ]
    assert judge({"a": PASSED}, {}, {}, {}) == [f"a fails with rackward's: {NOT_FINISHED.error}"]
    assert judge({"a": PASSED}, {"a": FAILED}, {"a": "does not apply"}, {}) == []


def test_a_reason_without_a_failing_test_is_a_problem() -> None:
    reasons = {"a": "does not apply"}
    assert judge({"a": PASSED}, {"a": PASSED}, reasons, {}) == ["no test needs the reason for a"]
    assert judge({"b": PASSED}, {"b": PASSED}, reasons, {}) == ["no test needs the reason for a"]


def test_a_reason_of_timing_may_be_without_a_failing_test() -> None:
    timing = {"a": "a race"}
    assert judge({"a": PASSED}, {"a": PASSED}, {}, timing) == []
    assert judge({"a": PASSED}, {"a": FAILED}, {}, timing) == []
