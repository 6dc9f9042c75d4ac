"""DockerCluster only: published ports, clean-up and errors."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator

import docker
import pytest

from rackward.testing import BrokerError, DockerCluster, DockerUnavailableError, reaper
from rackward.testing.docker import LABEL
from tests.support.waiting import wait_until

pytestmark = pytest.mark.docker

OWNER = textwrap.dedent("""
    import time
    from rackward.testing import DockerCluster

    with DockerCluster(["a"]) as cluster:
        print(cluster.label, flush=True)
        time.sleep(600)
""")


@pytest.fixture
def engine() -> Iterator[docker.DockerClient]:
    client = docker.from_env()
    yield client
    client.close()


def labelled(engine: docker.DockerClient, label: str) -> list[str]:
    """Return the names of containers and networks that carry a label."""
    filters = {"label": label}
    containers = engine.containers.list(all=True, filters=filters, ignore_removed=True)
    networks = engine.networks.list(filters=filters)
    return [each.name for each in (*containers, *networks)]


def test_ports_are_published_on_loopback_only(
    engine: docker.DockerClient,
) -> None:
    with DockerCluster(["/dc1/r 1", None]) as cluster:
        assert cluster.client_racks == ("/dc1/r 1",)
        assert cluster.view().racks() == {0: "/dc1/r 1", 1: None}
        assert cluster.add_broker("new") == 2
        assert cluster.view().racks()[2] == "new"
        bindings = [
            binding["HostIp"]
            for each in engine.containers.list(filters={"label": cluster.label})
            for bound in each.ports.values()
            for binding in bound or ()
        ]
        # Two listeners and the agent of each of three brokers; none of the controller.
        assert bindings == ["127.0.0.1"] * 9
        volumes = [
            mount["Name"]
            for each in engine.containers.list(filters={"label": cluster.label})
            for mount in each.attrs["Mounts"]
            if mount["Type"] == "volume"
        ]
        assert volumes
    assert labelled(engine, cluster.label) == []
    assert not {each.name for each in engine.volumes.list()} & set(volumes)


def test_containers_are_removed_when_the_owner_is_killed(engine: docker.DockerClient) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert owner.stdout is not None
    with owner.stdout:
        label = owner.stdout.readline().strip()
    assert len(labelled(engine, label)) == 3
    owner.kill()
    owner.wait()
    wait_until(
        lambda: not labelled(engine, label),
        reaper.CLEAN_UP_TIMEOUT,
        "containers and networks are removed",
    )


def test_a_broker_that_cannot_start_is_reported_and_removed(
    engine: docker.DockerClient,
) -> None:
    before = labelled(engine, LABEL)
    with pytest.raises(BrokerError, match=r"(?s)exited.*log\.retention\.ms"):
        DockerCluster(["a"], server_properties={"log.retention.ms": "soon"})
    assert labelled(engine, LABEL) == before


def test_the_error_about_a_missing_image_names_the_alternatives(
    engine: docker.DockerClient,
) -> None:
    before = labelled(engine, LABEL)
    with pytest.raises(
        DockerUnavailableError,
        match=r"no image 127.0.0.1:1/rackward/absent:0 .*pass image= .*apache/kafka.*LocalCluster",
    ):
        DockerCluster(["a"], image="127.0.0.1:1/rackward/absent:0")
    assert labelled(engine, LABEL) == before
