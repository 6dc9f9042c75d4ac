"""What makes the reading of a partition right, whoever read it."""

from __future__ import annotations

from integration.groups import Reads


def read_again(reads: Reads) -> int:
    """How many records of a partition were read more than once.

    AssertionError where records were passed over: the first read is the partition's first, and
    each is followed by the next one or, where it was not committed, by an earlier one.
    """
    following = 0
    for _, offset, member in reads.seen:
        assert offset <= following, f"{member} read {offset} where {following} comes next"
        following = offset + 1
    return len(reads.seen) - len(reads.offsets())
