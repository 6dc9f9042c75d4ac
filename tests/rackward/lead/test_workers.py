"""Which worker leads which group."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from rackward.kafka.groups import leads_for_rackward
from rackward.lead.protocols import client_id_of
from rackward.lead.workers import owner_of, worker_client_id

NAMES = st.text(max_size=8)
WORKERS = st.frozensets(NAMES, min_size=1, max_size=8)
GROUPS = st.frozensets(NAMES, max_size=20)
UUID = "-6f2b9a5e-6e0b-4c55-9a43-6f2c7b1d9a01"


def owners(groups: frozenset[str], workers: frozenset[str]) -> dict[str, str | None]:
    return {group: owner_of(group, workers) for group in groups}


@given(GROUPS, WORKERS)
def test_each_group_has_one_owner_whatever_the_order_of_the_workers(
    groups: frozenset[str], workers: frozenset[str]
) -> None:
    for group, owner in owners(groups, workers).items():
        assert owner in workers
        assert owner == owner_of(group, sorted(workers)) == owner_of(group, sorted(workers)[::-1])


@given(GROUPS, WORKERS, st.data())
def test_only_the_groups_of_a_worker_that_ends_move(
    groups: frozenset[str], workers: frozenset[str], data: st.DataObject
) -> None:
    """And only to a worker that starts: it is the same change in the other direction."""
    ended = data.draw(st.sampled_from(sorted(workers)))
    before, after = owners(groups, workers), owners(groups, workers - {ended})
    assert all(before[group] in (after[group], ended) for group in groups)


def test_the_groups_are_balanced_and_those_of_a_worker_go_to_all_others() -> None:
    groups = frozenset(f"group-{number}" for number in range(5000))
    workers = frozenset(f"rackward-lead-w/host-{number}" for number in range(5))
    before = owners(groups, workers)
    # Within five standard deviations of 28.
    assert all(abs(count - 1000) < 142 for count in Counter(before.values()).values())
    ended = min(workers)
    after = owners(groups, workers - {ended})
    received = Counter(after[group] for group in groups if before[group] == ended)
    assert len(received) == 4
    assert all(abs(count - 250) < 80 for count in received.values())


def test_without_workers_there_is_no_owner() -> None:
    assert owner_of("g", []) is None


def test_owners_do_not_change_with_the_release() -> None:
    """Workers of two releases run side by side in a rolling update."""
    assert [owner_of(f"group-{n}", ["a", "b", "c"]) for n in range(8)] == list("aaccbbac")


def test_the_name_of_a_worker_is_in_its_member_ids() -> None:
    name = worker_client_id("team-a", "pod-7")
    assert name.startswith("rackward-lead-team-a/pod-7-")
    assert name != worker_client_id("team-a", "pod-7")
    assert leads_for_rackward(name + UUID)
    assert client_id_of(name + UUID) == name
