"""Checks of what a group did while its cluster or its members failed: pure functions over logs.

`violations` checks a `History`, which holds what producers were told, what the brokers stored, and
what each member logged. Times are seconds of the machine's monotonic clock.

=============================  ====================================================================
check                          violated by
=============================  ====================================================================
`lost_in_log`                  an acknowledged record that the brokers do not have, or have twice
`skipped`                      an acknowledged record that is not delivered, or passed over at first
`shared_partitions`            a partition whose records two members delivered in one generation
`assigned_twice`               a partition that brokers stored for two members of one generation
`decreases`                    a committed offset that is lower than the one before
`committed_early`              a committed offset before all records below it were delivered
`without_owner`                a partition that no member owned for longer than the bound
`not_read`                     a partition of which nothing was delivered for longer than the bound
`not_optimal`                  a final assignment that is worse than the one the solver proves
=============================  ====================================================================
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from integration.support.clients import PartitionId
from integration.support.groups import Change, Reads
from integration.support.offsets_topic import Commit, Generation
from integration.support.racks import shortfall

CLOCK_TOLERANCE = 2.0
"""Seconds by which a busy machine may log a delivery later than it happened."""


@dataclass(frozen=True)
class Sent:
    """What was sent to one topic, which another one of the same name may follow.

    began, ended
        The time before its creation, and after its deletion: infinite while it exists.
    acknowledged
        By partition, the offset of each sequence number.
    stored
        By partition, the sequence number of the record at each offset that the brokers have.
    """

    began: float
    ended: float
    acknowledged: Mapping[int, Sequence[int]]
    stored: Mapping[int, Sequence[int]]


@dataclass(frozen=True)
class History:
    """What a group did, from its first record to the end."""

    topic: str
    sent: Sequence[Sent]
    reads: Mapping[int, Reads]
    changes: Sequence[Change]
    claims: Collection[tuple[int, PartitionId, str]]
    """Generation, partition and member of delivered records."""
    commits: Mapping[PartitionId, Sequence[Commit]]
    generations: Sequence[Generation]
    disturbed: tuple[float, float]
    """The time from the first fault until the group read again, without that of a deleted topic."""
    bound: float
    """Seconds for which a partition may be without an owner, or not be read."""
    owned: Mapping[str, frozenset[PartitionId]]
    """The final assignment."""
    racks: Mapping[str, str | None]
    leader_racks: Sequence[str | None]


def violations(history: History) -> list[str]:
    """Return everything that is wrong, a line of text each."""
    found = []
    for sent in history.sent:
        reads = {p: _between(reads, sent) for p, reads in history.reads.items()}
        commits = {
            tp: [each for each in commits if sent.began <= each.at < sent.ended]
            for tp, commits in history.commits.items()
        }
        found += lost_in_log(sent)
        found += skipped(sent.acknowledged, reads)
        found += decreases(_offsets(commits))
        found += committed_early(commits, reads)
    if not (history.commits and history.generations):
        found.append("the brokers stored no commits, or no generations, of the group")
    found += shared_partitions(history.claims)
    found += assigned_twice(history.generations)
    # Of a topic that was deleted, partitions had no owner in between.
    if len(history.sent) == 1:
        partitions = sorted(history.sent[0].acknowledged)
        tps = [(history.topic, p) for p in partitions]
        found += without_owner(history.changes, tps, history.disturbed, history.bound)
        found += not_read(history.reads, partitions, history.disturbed, history.bound)
    found += not_optimal(history)
    return found


def longest_gap(history: History) -> float:
    """Return the longest time in which nothing of some partition was delivered, in seconds."""
    since, until = history.disturbed
    return max(reads.longest_gap(since, until) for reads in history.reads.values())


def repeated(history: History) -> int:
    """Return how many deliveries were not the first of their record."""
    parts = [_between(reads, sent) for sent in history.sent for reads in history.reads.values()]
    return sum(each.count - len(each.offsets()) for each in parts)


def lost_in_log(sent: Sent) -> list[str]:
    """Return acknowledged records that are not stored where they were, and repeated ones."""
    found = []
    for partition, offsets in sent.acknowledged.items():
        stored = sent.stored.get(partition, ())
        lost = [
            sequence
            for sequence, offset in enumerate(offsets)
            if offset >= len(stored) or stored[offset] != sequence
        ]
        if lost:
            found.append(
                f"partition {partition}: {len(lost)} acknowledged records are not stored,"
                f" the first has sequence number {lost[0]}"
            )
        found += [
            f"partition {partition}: at offset {offset}, sequence number {sequence}"
            f" follows {before}"
            for offset, (before, sequence) in enumerate(itertools.pairwise(stored), 1)
            if sequence != before + 1
        ]
    return found


def skipped(acknowledged: Mapping[int, Collection[int]], reads: Mapping[int, Reads]) -> list[str]:
    """Return the acknowledged records that are not delivered, and those passed over at first."""
    found = []
    for partition, offsets in acknowledged.items():
        seen = reads.get(partition, Reads())
        if missing := set(offsets) - seen.offsets():
            found.append(f"partition {partition}: {len(missing)} records are not delivered")
        expected = 0
        for _, first, end, member in sorted(seen.spans):
            if first > expected:
                found.append(f"partition {partition}: {member} read {first} before {expected}")
            expected = max(expected, end)
    return found


def shared_partitions(claims: Iterable[tuple[int, PartitionId, str]]) -> list[str]:
    """Return the partitions that two members read in one generation; -1 is none."""
    readers: dict[tuple[int, PartitionId], set[str]] = {}
    for generation, tp, member in claims:
        if generation >= 0:
            readers.setdefault((generation, tp), set()).add(member)
    return [
        f"{topic}-{partition} is read by {' and '.join(sorted(members))} in generation {generation}"
        for (generation, (topic, partition)), members in sorted(readers.items())
        if len(members) > 1
    ]


def assigned_twice(generations: Iterable[Generation]) -> list[str]:
    """Return the partitions that are assigned to two members of one generation."""
    owners: dict[tuple[int, PartitionId], set[tuple[str, str]]] = {}
    for generation in generations:
        for member, tps in generation.assigned.items():
            for tp in tps:
                owners.setdefault((generation.number, tp), set()).add(member)
    return [
        f"{topic}-{partition} is assigned to"
        f" {' and '.join(sorted(client for client, _ in members))} in generation {number}"
        for (number, (topic, partition)), members in sorted(owners.items())
        if len(members) > 1
    ]


def decreases(history: Mapping[PartitionId, Sequence[int]]) -> list[str]:
    """Return the committed offsets that are lower than the one before."""
    return [
        f"{topic}-{partition}: offset {offset} is committed after {before}"
        for (topic, partition), offsets in sorted(history.items())
        for before, offset in itertools.pairwise(offsets)
        if offset < before
    ]


def committed_early(
    commits: Mapping[PartitionId, Sequence[Commit]],
    reads: Mapping[int, Reads],
    tolerance: float = CLOCK_TOLERANCE,
) -> list[str]:
    """Return the first commit of each partition before all records below it were delivered."""
    found = []
    for (topic, partition), history in sorted(commits.items()):
        delivered = _delivered_at(reads.get(partition, Reads()))
        for commit in history:
            if not commit.offset:
                continue
            below = delivered[: commit.offset]
            if len(below) < commit.offset or below[-1] > commit.at + tolerance:
                late = math.inf if len(below) < commit.offset else below[-1] - commit.at
                found.append(
                    f"{topic}-{partition}: {commit.offset} is committed"
                    + (" but never" if late == math.inf else f" {late:.1f} s before it is")
                    + " delivered up to there"
                )
                break
    return found


def _delivered_at(reads: Reads) -> list[float]:
    """Return, by offset, when it and all before it were delivered; ends at the first missing."""
    times = [math.inf] * max((each.end for each in reads.spans), default=0)
    for at, first, end, _ in reads.spans:
        for offset in range(first, end):
            times[offset] = min(at, times[offset])
    delivered = itertools.takewhile(math.isfinite, times)
    return list(itertools.accumulate(delivered, max))


def without_owner(
    changes: Iterable[Change],
    partitions: Iterable[PartitionId],
    between: tuple[float, float],
    bound: float,
) -> list[str]:
    """Return the partitions that no running member owned for longer than ``bound`` seconds."""
    since, until = between
    owners: dict[PartitionId, set[str]] = {tp: set() for tp in partitions}
    free_since = dict.fromkeys(owners, -math.inf)
    longest = dict.fromkeys(owners, 0.0)
    suspended: dict[str, frozenset[PartitionId]] = {}

    def end_gap(tp: PartitionId, at: float) -> None:
        if not owners[tp]:
            gap = min(at, until) - max(free_since[tp], since)
            longest[tp] = max(longest[tp], gap)

    for change in sorted(changes, key=lambda change: change.when):
        tps: Iterable[PartitionId] = change.partitions
        assigned = change.kind == "assigned"
        if change.kind == "resumed":
            tps, assigned = suspended.pop(change.member, frozenset()), True
        elif change.kind not in ("assigned", "revoked", "lost"):  # Closing, killed, suspended.
            tps = frozenset(tp for tp, names in owners.items() if change.member in names)
            if change.kind == "suspended":
                suspended[change.member] = tps
        for tp in tps:
            if tp not in owners:
                continue
            if assigned:
                end_gap(tp, change.when)
                owners[tp].add(change.member)
            elif owners[tp]:
                owners[tp].discard(change.member)
                free_since[tp] = change.when
    for tp in owners:
        end_gap(tp, until)
    return [
        f"{topic}-{partition} had no owner for {seconds:.1f} s, the bound is {bound:g} s"
        for (topic, partition), seconds in sorted(longest.items())
        if seconds > bound
    ]


def not_read(
    reads: Mapping[int, Reads],
    partitions: Iterable[int],
    between: tuple[float, float],
    bound: float,
) -> list[str]:
    """Return the partitions of which nothing was delivered for longer than ``bound`` seconds."""
    gaps = {p: reads.get(p, Reads()).longest_gap(*between) for p in partitions}
    return [
        f"partition {partition} was not read for {seconds:.1f} s, the bound is {bound:g} s"
        for partition, seconds in gaps.items()
        if seconds > bound
    ]


def not_optimal(history: History) -> list[str]:
    """Return why the final assignment is not complete, or not the best."""
    owners = Counter(number for tps in history.owned.values() for _, number in tps)
    wrong = {p: owners[p] for p in range(len(history.leader_racks)) if owners[p] != 1}
    if wrong:
        return [f"at the end, partitions do not have one owner but {wrong}"]
    found = shortfall(history.owned, history.racks, {history.topic: history.leader_racks})
    return [f"the final assignment has {found}"] if found else []


def _between(reads: Reads, sent: Sent) -> Reads:
    part = Reads()
    part.spans = [each for each in reads.spans if sent.began <= each.at < sent.ended]
    return part


def _offsets(commits: Mapping[PartitionId, Sequence[Commit]]) -> dict[PartitionId, list[int]]:
    return {
        tp: [each.offset for each in history if each.offset is not None]
        for tp, history in commits.items()
    }
