from __future__ import annotations

import pytest

from placement_core import InvalidOptionError
from rackward.cli.options import select

KNOWN = ("orders", "orders-eu", "payments", "__consumer_offsets")


@pytest.mark.parametrize(
    ("topics", "exclude", "chosen"),
    [
        (None, None, KNOWN),
        ("orders", None, ("orders",)),
        ("orders*, payments", None, ("orders", "orders-eu", "payments")),
        (None, "__*", ("orders", "orders-eu", "payments")),
        ("orders*", "*-eu,absent", ("orders",)),
    ],
)
def test_topics_are_chosen_by_name_and_pattern(
    topics: str | None, exclude: str | None, chosen: tuple[str, ...]
) -> None:
    assert select(KNOWN, topics, exclude) == set(chosen)


@pytest.mark.parametrize(
    ("topics", "exclude", "problem"),
    [
        ("order", None, "--topics order: the cluster has no such topic"),
        ("orders,x*", None, r"--topics x\*: the cluster has no such topic"),
        ("orders,,", None, "--topics 'orders,,': write names"),
        ("orders", "ord*", r"--exclude ord\*: no topic is left"),
    ],
)
def test_what_chooses_nothing_is_refused(topics: str, exclude: str | None, problem: str) -> None:
    with pytest.raises(InvalidOptionError, match=problem):
        select(KNOWN, topics, exclude)


def test_a_cluster_without_topics_has_none_to_choose() -> None:
    assert select((), None, "a") == frozenset()
