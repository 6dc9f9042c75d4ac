"""`rackward audit --flows` on a live group, with flow records that are written here."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from integration.cli.conftest import MakeTopic
from integration.support.clients import KafkaPython, partitions_of
from integration.support.command_line import rackward
from integration.support.groups import ConsumerGroup
from integration.support.traffic import BoundSocket
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT

MEMBER, OTHER = "127.20.2.7", "127.20.9.9"
SECONDS = 60
MONTH = 730 * 3600


@pytest.mark.slow  # Spark starts
def test_flow_records_beside_the_audit(
    three_brokers: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """The member declares rack a, and its network is in b; another client reads and writes."""
    cluster = three_brokers
    assert BoundSocket.SCHEMES == ("from",)
    topic = make_topic(cluster, "flows", [[0, 1], [1, 2], [2, 0]])
    group = ConsumerGroup(cluster, topics=[topic], client=KafkaPython())
    with group:
        group.start("m1", "a", proxy_url=f"from://{MEMBER}")
        group.settle(partitions_of(topic, 3))
        write_flows(cluster, tmp_path)
        measured = rackward(
            cluster,
            *("audit", "--flows", tmp_path / "flows.csv"),
            *("--flow-addresses", tmp_path / "addresses.json", "--json"),
        ).json["measured"]
    sizes = {
        each["kind"]: (each["bytes_per_second"], each["crossing_bytes_per_second"])
        for each in measured["kinds"]
    }
    assert sizes == {"consume": (30e3, 20e3), "replicate": (0, 0), "produce": (5e3, 0)}
    (consumed,) = (each for each in measured["kinds"] if each["kind"] == "consume")
    assert consumed["cost_per_month"] == pytest.approx(20e3 * MONTH * 0.02e-9, abs=1e-4)
    assert measured["clients"] == [
        {
            **{"address": OTHER, "rack": "c"},
            **{"read_bytes_per_second": 20e3, "written_bytes_per_second": 5e3},
        }
    ]
    assert measured["misplaced"] == [
        {
            **{"group": group.id, "address": MEMBER, "rack": "a", "network_rack": "b"},
            "bytes_per_second": 10e3,
        }
    ]
    assert measured["rejected_records"] == 1


def write_flows(cluster: Cluster, folder: Path) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    brokers = admin.list_topics(timeout=TEST_TIMEOUT).brokers
    ends = {each.id: f"{each.host},{each.port}" for each in brokers.values()}
    begin = int(time.time()) - 2 * SECONDS
    rows = [
        (ends[0], f"{MEMBER},50000", 600_000),
        (ends[1], f"{OTHER},50000", 1_200_000),
        (f"{OTHER},50001", ends[2], 300_000),
        (f"{OTHER},50001", ends[2], -1),
    ]
    lines = [f"{begin},{begin + SECONDS},{one},{other},{size}" for one, other, size in rows]
    header = "start,end,source_address,source_port,destination_address,destination_port,bytes"
    (folder / "flows.csv").write_text("\n".join([header, *lines]))
    networks = {"127.20.2.0/24": "b", "127.20.9.0/24": "c"}
    (folder / "addresses.json").write_text(json.dumps({"racks": networks}))
