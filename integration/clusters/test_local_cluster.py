"""LocalCluster only: its processes, its folder, its errors and its cache."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from integration.support.topics import with_admin
from placement_core import InvalidOptionError
from rackward.testing import (
    BrokerError,
    BrokerStateError,
    ClusterClosedError,
    DownloadError,
    LocalCluster,
    UnknownClientRackError,
    local,
)
from rackward.testing.broker_config import free_ports
from rackward.testing.kafka_jars import fetch_kafka
from tests.support.waiting import TEST_TIMEOUT, wait_until

OWNER = textwrap.dedent("""
    import sys, time
    from rackward.testing import LocalCluster

    with LocalCluster(["a"], directory=sys.argv[1]) as cluster:
        print("up", flush=True)
        time.sleep(600)
""")


def processes_in(folder: Path) -> list[str]:
    """Return command lines of processes of clusters here: nodes, and a reaper for each."""
    ps = subprocess.run(["ps", "-Aww", "-o", "args="], capture_output=True, text=True, check=True)
    return [line for line in ps.stdout.splitlines() if f"{folder}/rackward-" in line]


def is_clean(folder: Path) -> bool:
    return not processes_in(folder) and not list(folder.glob("rackward-*"))


def test_an_exception_in_the_block_closes_the_cluster(tmp_path: Path) -> None:
    def fail() -> None:
        with LocalCluster(["a"], directory=tmp_path):
            assert len(processes_in(tmp_path)) == 3
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        fail()
    assert is_clean(tmp_path)


def test_methods_of_a_closed_cluster_raise(tmp_path: Path) -> None:
    cluster = LocalCluster(["a"], directory=tmp_path)
    cluster.pause_broker(0)
    cluster.close()
    cluster.close()
    assert is_clean(tmp_path)
    for method in (cluster.bytes_out, cluster.view, lambda: cluster.kill_broker(0)):
        with pytest.raises(ClusterClosedError):
            method()


def test_a_garbage_collected_cluster_is_closed(tmp_path: Path) -> None:
    cluster = LocalCluster(["a"], directory=tmp_path)
    assert processes_in(tmp_path)
    del cluster
    gc.collect()
    assert is_clean(tmp_path)


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_killed_owner_leaves_no_process_and_no_folder(
    tmp_path: Path, number: signal.Signals
) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert owner.stdout is not None
    with owner.stdout:
        assert owner.stdout.readline() == "up\n"
    assert len(processes_in(tmp_path)) == 3
    owner.send_signal(number)
    owner.wait()
    wait_until(lambda: is_clean(tmp_path), TEST_TIMEOUT, "processes and folder are removed")


@pytest.mark.slow
def test_two_clusters_at_once_and_added_brokers(tmp_path: Path) -> None:
    with (
        LocalCluster(["/dc1/r 1", None], client_racks=["/dc1/r 1", "ü"], directory=tmp_path) as one,
        LocalCluster(["a"], directory=tmp_path) as other,
    ):
        assert one.client_racks == ("/dc1/r 1", "ü")
        assert one.view().racks() == {0: "/dc1/r 1", 1: None}
        assert other.view().racks() == {0: "a"}
        ports = [
            each.bootstrap(rack) for each in (one, other) for rack in (None, *each.client_racks)
        ]
        assert len(set(",".join(ports).split(","))) == 2 * 3 + 2
        assert one.add_broker("ü") == 2
        assert one.view().racks() == {0: "/dc1/r 1", 1: None, 2: "ü"}
        assert len(one.bootstrap("ü").split(",")) == 3
        assert ("ü", 2) in one.bytes_out()
        other.add_broker("new")
        with pytest.raises(UnknownClientRackError, match="Name the rack in client_racks"):
            other.bootstrap("new")
        other.close()
        assert one.view().racks()[2] == "ü"
        assert len(processes_in(tmp_path)) == 5
    assert is_clean(tmp_path)


def test_a_broker_that_cannot_start_is_reported_with_its_log(tmp_path: Path) -> None:
    with pytest.raises(BrokerError, match=r"(?s)node \d+ .*exited.*log.retention.ms") as caught:
        LocalCluster(["a"], server_properties={"log.retention.ms": "soon"}, directory=tmp_path)
    assert "soon" in caught.value.log_tail
    assert is_clean(tmp_path)


def test_a_broker_that_cannot_restart_is_reported_with_its_log(tmp_path: Path) -> None:
    with LocalCluster(["a", "b"], directory=tmp_path) as cluster:
        cluster.kill_broker(1)
        (properties,) = tmp_path.glob("rackward-*/broker-1/server.properties")
        valid = properties.read_text()
        properties.write_text(valid.replace("node.id=1", "node.id=7"))
        with pytest.raises(BrokerError, match="node 1 exited during startup") as caught:
            cluster.start_broker(1)
        assert caught.value.broker_id == 1
        assert "Stored node id 1 doesn't match" in caught.value.log_tail
        properties.write_text(valid)
        cluster.start_broker(1)
        assert cluster.view().racks() == {0: "a", 1: "b"}
        with pytest.raises(BrokerStateError, match="running"):
            cluster.resume_broker(1)


@pytest.mark.slow
@pytest.mark.parametrize("taken", ["controller", "agent", "internal"])
def test_a_start_is_retried_if_a_port_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        # The first call is for the controller, the second for a broker's agent and listeners.
        call, index = {"controller": (0, 0), "agent": (1, 0), "internal": (1, 1)}[taken]
        calls = itertools.count()

        def free_ports_with_a_taken_one(count: int) -> list[int]:
            ports = free_ports(count)
            if next(calls) == call:
                ports[index] = occupied.getsockname()[1]
            return ports

        monkeypatch.setattr(local, "free_ports", free_ports_with_a_taken_one)
        with LocalCluster(["a"], directory=tmp_path) as cluster:
            assert cluster.view().racks() == {0: "a"}
            assert next(calls) == 4


def test_an_added_broker_is_retried_if_a_port_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as occupied,
        LocalCluster(["a"], directory=tmp_path) as cluster,
    ):
        taken = [occupied.getsockname()[1], *free_ports(2)]
        lists = iter([taken, free_ports(3)])
        monkeypatch.setattr(local, "free_ports", lambda _: next(lists))
        assert cluster.add_broker("b") == 1
        assert cluster.view().racks() == {0: "a", 1: "b"}


@pytest.mark.parametrize(
    "version",
    [*(pytest.param(each, marks=pytest.mark.slow) for each in ("3.9.1", "4.3.1")), "4.4.0"],
)
def test_a_cluster_has_the_features_of_its_version(version: str) -> None:
    """The file with their levels has another place from Kafka 4.4 on."""
    shown: list[str] = []
    with LocalCluster(["a"], kafka_version=version, progress=shown.append) as cluster:
        features = with_admin(cluster, lambda admin: admin.describe_features())
    assert not [line for line in shown if "could not write a CDS archive" in line]
    level = features["metadata.version"]
    assert level["finalized"][1] == level["supported"][1]


def test_a_cluster_needs_a_broker() -> None:
    with pytest.raises(InvalidOptionError, match="at least one broker"):
        LocalCluster([])


def test_a_filled_cache_needs_neither_network_nor_path(tmp_path: Path) -> None:
    script = OWNER.replace("time.sleep(600)", "")
    # A proxy that refuses connections simulates a missing network.
    (port,) = free_ports(1)
    changes = {"PATH": "", "HTTPS_PROXY": f"http://127.0.0.1:{port}", "JAVA_HOME": "/nowhere"}
    completed = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        env={**os.environ, **changes},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert (completed.returncode, completed.stdout) == (0, "up\n"), completed.stderr
    assert is_clean(tmp_path)


def test_a_failed_download_leaves_no_files_and_names_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (port,) = free_ports(1)
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
    messages: list[str] = []
    with pytest.raises(DownloadError, match=r"could not download Kafka 4\.4\.0 .*can be reached"):
        fetch_kafka("4.4.0", tmp_path, messages.append)
    assert messages == ["downloading Kafka 4.4.0 (45 MB, once)"]
    assert [path.name for path in tmp_path.iterdir()] == ["kafka-4.4.0-1.lock"]
