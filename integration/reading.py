"""What makes the reading of a partition right, whoever read it."""

from __future__ import annotations

import time
from collections.abc import Callable

from integration.clients import Place
from integration.groups import Reads
from integration.topics import Trickle, committed
from integration.waiting import PATIENCE
from rackward.clusters import Cluster


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


def everything_is_read(
    reads_of: Callable[[Place], Reads], topic: str, sent: Trickle, within: float = PATIENCE
) -> None:
    """Wait until every record that was acknowledged has been read.

    AssertionError that names what is lacking, and who read around it, after ``within`` seconds.
    """
    deadline = time.monotonic() + within
    while True:
        lacking = {
            partition: sorted(missing)
            for partition, offsets in sent.acknowledged.items()
            if (missing := offsets - reads_of((topic, partition)).offsets())
        }
        if not lacking:
            return
        if time.monotonic() > deadline:
            raise AssertionError(
                f"not read within {within:g} s: "
                + "; ".join(
                    f"{topic}-{partition}: {len(missing)} of {len(sent.acknowledged[partition])},"
                    f" {missing[0]} to {missing[-1]}, read before and after: "
                    f"{_around(reads_of((topic, partition)), missing[0], missing[-1])}"
                    for partition, missing in lacking.items()
                )
            )
        time.sleep(0.05)


def everything_is_committed(cluster: Cluster, group_id: str, sent: Trickle) -> None:
    """Wait until the group's next record is, of each partition, the one after the last sent.

    Members that have read everything commit it by themselves within a second. Where all of them
    leave before that, each commits as it leaves, unless a rebalance that the others' leaving makes
    is just on its way: so ask for this before they leave, and again afterwards.
    """
    wanted = {partition: max(offsets) + 1 for partition, offsets in sent.acknowledged.items()}
    deadline = time.monotonic() + PATIENCE
    while True:
        found = {partition: at for (_, partition), at in committed(cluster, group_id).items()}
        if found == wanted or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    assert found == wanted


def _around(reads: Reads, first: int, last: int) -> list[tuple[float, int, str]]:
    return [seen for seen in reads.seen if seen[1] in (first - 1, last + 1)]
