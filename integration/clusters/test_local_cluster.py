"""What LocalCluster alone promises: its processes, its folder, its errors, its cache."""

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

from placement_core import InvalidOptionError
from rackward.clusters import (
    BrokerError,
    BrokerStateError,
    ClusterClosedError,
    DownloadError,
    LocalCluster,
    UnknownClientRackError,
    local,
)
from rackward.clusters.broker_config import free_ports
from rackward.clusters.distribution import distribution
from tests.support.waiting import PATIENCE, wait_until

OWNER = textwrap.dedent("""
    import sys, time
    from rackward.clusters import LocalCluster

    with LocalCluster(["a"], directory=sys.argv[1]) as cluster:
        print("up", flush=True)
        time.sleep(600)
""")


def java_in(folder: Path) -> list[str]:
    """Command lines of processes that have the folder among their arguments."""
    listed = subprocess.run(
        ["ps", "-Aww", "-o", "args="], capture_output=True, text=True, check=True
    )
    return [line for line in listed.stdout.splitlines() if f"{folder}/rackward-" in line]


def is_clean(folder: Path) -> bool:
    return not java_in(folder) and not list(folder.glob("rackward-*"))


def test_nothing_is_left_when_the_block_raises(tmp_path: Path) -> None:
    def fail() -> None:
        with LocalCluster(["a"], directory=tmp_path):
            assert len(java_in(tmp_path)) == 2
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        fail()
    assert is_clean(tmp_path)


def test_a_closed_cluster_says_so(tmp_path: Path) -> None:
    cluster = LocalCluster(["a"], directory=tmp_path)
    cluster.pause_broker(0)
    cluster.close()
    cluster.close()
    assert is_clean(tmp_path)
    for call in (cluster.bytes_out, cluster.view, lambda: cluster.kill_broker(0)):
        with pytest.raises(ClusterClosedError):
            call()


def test_a_cluster_that_is_dropped_is_closed(tmp_path: Path) -> None:
    cluster = LocalCluster(["a"], directory=tmp_path)
    assert java_in(tmp_path)
    del cluster
    gc.collect()
    assert is_clean(tmp_path)


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_nothing_is_left_when_the_owner_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert owner.stdout is not None
    with owner.stdout:
        assert owner.stdout.readline() == "up\n"
    assert len(java_in(tmp_path)) == 2
    owner.send_signal(number)
    owner.wait()
    wait_until(lambda: is_clean(tmp_path), PATIENCE, "all of it is gone")


@pytest.mark.slow
def test_two_clusters_and_brokers_that_join(tmp_path: Path) -> None:
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
        with pytest.raises(UnknownClientRackError, match="name it in client_racks"):
            other.bootstrap("new")
        other.close()
        assert one.view().racks()[2] == "ü"
        assert len(java_in(tmp_path)) == 4
    assert is_clean(tmp_path)


def test_a_broker_that_cannot_start_shows_its_log(tmp_path: Path) -> None:
    with pytest.raises(BrokerError, match=r"(?s)node \d+ .*ended.*log.retention.ms") as failed:
        LocalCluster(["a"], server_properties={"log.retention.ms": "soon"}, directory=tmp_path)
    assert "soon" in failed.value.log_tail
    assert is_clean(tmp_path)


def test_a_broker_that_cannot_come_back_shows_its_log(tmp_path: Path) -> None:
    with LocalCluster(["a", "b"], directory=tmp_path) as cluster:
        cluster.kill_broker(1)
        (properties,) = tmp_path.glob("rackward-*/broker-1/server.properties")
        good = properties.read_text()
        properties.write_text(good.replace("node.id=1", "node.id=7"))
        with pytest.raises(BrokerError, match="node 1 ended while starting") as failed:
            cluster.start_broker(1)
        assert failed.value.broker_id == 1
        assert "Stored node id 1 doesn't match" in failed.value.log_tail
        properties.write_text(good)
        cluster.start_broker(1)
        assert cluster.view().racks() == {0: "a", 1: "b"}
        with pytest.raises(BrokerStateError, match="running"):
            cluster.resume_broker(1)


@pytest.mark.slow
@pytest.mark.parametrize("taken", ["controller", "agent", "internal"])
def test_a_port_that_is_taken_meanwhile_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as thief:
        # The first free_ports is for the controller, the second for a broker's agent and doors.
        call, place = {"controller": (0, 0), "agent": (1, 0), "internal": (1, 1)}[taken]
        calls = itertools.count()

        def steal(count: int) -> list[int]:
            ports = free_ports(count)
            if next(calls) == call:
                ports[place] = thief.getsockname()[1]
            return ports

        monkeypatch.setattr(local, "free_ports", steal)
        with LocalCluster(["a"], directory=tmp_path) as cluster:
            assert cluster.view().racks() == {0: "a"}
            assert next(calls) == 4


def test_a_broker_that_joins_survives_a_taken_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as thief,
        LocalCluster(["a"], directory=tmp_path) as cluster,
    ):
        stolen = [thief.getsockname()[1], *free_ports(2)]
        lists = iter([stolen, free_ports(3)])
        monkeypatch.setattr(local, "free_ports", lambda _: next(lists))
        assert cluster.add_broker("b") == 1
        assert cluster.view().racks() == {0: "a", 1: "b"}


def test_a_cluster_needs_a_broker() -> None:
    with pytest.raises(InvalidOptionError, match="at least one broker"):
        LocalCluster([])


def test_a_full_cache_needs_neither_network_nor_path(tmp_path: Path) -> None:
    script = OWNER.replace("time.sleep(600)", "")
    # An address that answers nothing stands for a network that is not there.
    (port,) = free_ports(1)
    without = {"PATH": "", "HTTPS_PROXY": f"http://127.0.0.1:{port}", "JAVA_HOME": "/nowhere"}
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        env={**os.environ, **without},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "up\n"), done.stderr
    assert is_clean(tmp_path)


def test_a_download_that_fails_leaves_nothing_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (port,) = free_ports(1)
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
    told: list[str] = []
    with pytest.raises(DownloadError, match=r"could not download Kafka 4\.3\.1 .*can be reached"):
        distribution("4.3.1", tmp_path, told.append)
    assert told == ["downloading Kafka 4.3.1 (45 MB, once)"]
    assert [path.name for path in tmp_path.iterdir()] == ["download.lock"]
