"""Two hundred groups in one process."""

from __future__ import annotations

import time
from pathlib import Path

from integration.support.topics import new_name
from rackward.clusters import Cluster
from rackward.lead import GroupLeader
from rackward.lead.connection import IDLE_JOIN_CONNECTIONS
from tests.support.waiting import TEST_TIMEOUT, wait_until

GROUPS = 200
REST_SECONDS = 10.0


def test_connections_do_not_grow_with_the_number_of_groups(shared_three_brokers: Cluster) -> None:
    stem = new_name("scale")
    names = [f"{stem}-{number}" for number in range(GROUPS)]
    properties = {"bootstrap.servers": shared_three_brokers.bootstrap_servers}
    before = _resident_megabytes()
    with GroupLeader(properties, names) as leader:
        wait_until(
            lambda: all(each.leads for each in leader.status()),
            2 * TEST_TIMEOUT,
            "all groups are led",
        )
        cpu, began = time.process_time(), time.monotonic()
        time.sleep(REST_SECONDS)
        share = (time.process_time() - cpu) / (time.monotonic() - began)
        print(
            f"\ngroups={GROUPS} connections={leader.open_connections} cpu={100 * share:.1f}%"
            f" megabytes={_resident_megabytes() - before:.0f}"
        )
        brokers = len(shared_three_brokers.racks)
        assert leader.open_connections <= brokers * (1 + IDLE_JOIN_CONNECTIONS)
        assert all(each.leads for each in leader.status())


def _resident_megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6
