"""Processes that lead: one with two hundred groups, and the controller."""

from __future__ import annotations

import time
from pathlib import Path

from integration.support.controllers import RunningController
from integration.support.leading import LedGroup, membership_times
from integration.support.topics import new_name
from rackward.lead import GroupLeader
from rackward.lead.member import IDLE_JOIN_CONNECTIONS
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

GROUPS = 200
REST_SECONDS = 10.0


def test_the_active_controller_leads_its_configured_groups(
    shared_three_brokers: Cluster, led: LedGroup, tmp_path: Path
) -> None:
    group = led.group.id
    with RunningController(shared_three_brokers, tmp_path, lead={"groups": group}) as running:
        leads = f'rackward_lead_leading{{group="{group}"}} 1.0'
        wait_until(lambda: leads in running.metrics(), 2 * TEST_TIMEOUT, "the controller leads")
        led.start("a1", "b1", "c1")
        led.settle()
        off_rack = f'rackward_lead_off_rack_partitions{{group="{group}"}} 0.0'
        wait_until(lambda: off_rack in running.metrics(), TEST_TIMEOUT, "nothing is off-rack")
        assert running.stop() == 130


def test_connections_do_not_grow_with_the_number_of_groups(shared_three_brokers: Cluster) -> None:
    stem = new_name("scale")
    names = [f"{stem}-{number}" for number in range(GROUPS)]
    properties = {"bootstrap.servers": shared_three_brokers.bootstrap_servers}
    before = _resident_megabytes()
    with (
        membership_times(session=10.0, rebalance=120.0, heartbeat=1.0, alone=90.0),
        GroupLeader(properties, names) as leader,
    ):
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
