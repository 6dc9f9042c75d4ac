"""Disturbs the network and the disks of the containers of a DockerCluster.

Rules of iptables in the network namespace of a container drop its packets. They are set from
outside, so that the image needs no further programs, which takes root, nsenter, iptables and tc
on this machine. A container that is restarted has a new namespace without rules.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from typing import Any

from integration.chaos.effects import delayed_packets, dropped_packets, require
from rackward.testing import DockerCluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

DATA = "/var/lib/kafka/data"
"""The data folder in the container of a broker."""

DEVICE = "eth0"

DISK_FULL = b"No space left on device"


class Network:
    """The network of one cluster."""

    def __init__(self, cluster: DockerCluster) -> None:
        self._cluster = cluster

    def cut(self, broker: int, others: Iterable[int]) -> None:
        """Drop all packets between a broker and other brokers; all reach the controller."""
        for other in others:
            address = self._address(other)
            self._rule(broker, "-A", "INPUT", "-s", address, "-j", "DROP")
            self._rule(broker, "-A", "OUTPUT", "-d", address, "-j", "DROP")

    def isolate(self, broker: int) -> None:
        """Drop all packets from and to a broker."""
        self._rule(broker, "-A", "INPUT", "-j", "DROP")
        self._rule(broker, "-A", "OUTPUT", "-j", "DROP")

    def cut_clients(self, rack: str, broker: int) -> None:
        """Drop all packets of the clients in a rack to a broker: those to their listener."""
        listener = self._cluster._rack_listeners[rack]
        port = str(self._cluster._container_ports[listener])
        self._rule(broker, "-A", "INPUT", "-p", "tcp", "--dport", port, "-j", "DROP")

    def lose_packets(self, broker: int, share: float) -> None:
        """Drop a share of the packets that a broker receives: TCP sends them again, later."""
        probability = f"{share:g}"
        self._rule(
            *(broker, "-A", "INPUT", "-m", "statistic", "--mode", "random"),
            *("--probability", probability, "-j", "DROP"),
        )

    def slow_down(self, broker: int, rate: str) -> None:
        """Limit what a broker sends to ``rate`` in the words of tc, such as 200kbit."""
        limit = ("tbf", "rate", rate, "burst", "5kb", "latency", "2s")
        self._run(broker, "tc", "qdisc", "replace", "dev", DEVICE, "root", *limit)

    def fill_disk(self, broker: int) -> None:
        """Fill the data folder of a broker; wait until it has shut down by itself."""
        container = self._container(broker)
        _, output = container.exec_run(f"dd if=/dev/zero of={DATA}/filler bs=1M")
        require(DISK_FULL in output, f"dd fills the disk, instead of {output[-200:]!r}")

        def has_exited() -> bool:
            container.reload()
            return str(container.status) == "exited"

        wait_until(has_exited, TEST_TIMEOUT, f"broker {broker} shuts down with a full disk")
        require(DISK_FULL in container.logs(), f"broker {broker} logs {DISK_FULL.decode()!r}")

    def heal(self) -> list[str]:
        """Remove all rules and limits; return how many packets they dropped or delayed.

        Raise AssertionError if those of a broker did neither.
        """
        counts = []
        for broker in self._cluster.racks:
            dropped = dropped_packets(self._run(broker, "iptables", "-nvxL"))
            self._rule(broker, "-F")
            limits = self._run(broker, "tc", "-s", "qdisc", "show", "dev", DEVICE)
            delayed = delayed_packets(limits)
            if delayed is not None:
                self._run(broker, "tc", "qdisc", "del", "dev", DEVICE, "root")
            for count, kind in ((dropped, "dropped"), (delayed, "delayed")):
                if count is not None:
                    counts.append(f"broker {broker}: {count} packets {kind}")
                    require(count > 0, f"{counts[-1]}, more than 0 expected")
        return counts

    def _rule(self, broker: int, *arguments: str) -> None:
        self._run(broker, "iptables", *arguments)

    def _run(self, broker: int, *arguments: str) -> str:
        """Run a command in the broker's network namespace and return its output."""
        pid = str(self._attributes(broker)["State"]["Pid"])
        command = ["nsenter", f"--net=/proc/{pid}/ns/net", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}"
        return done.stdout

    def _address(self, broker: int) -> str:
        (network,) = self._attributes(broker)["NetworkSettings"]["Networks"].values()
        return str(network["IPAddress"])

    def _attributes(self, broker: int) -> Any:
        container = self._container(broker)
        container.reload()
        return container.attrs

    def _container(self, broker: int) -> Any:
        return self._cluster._containers[f"broker-{broker}"].get_wrapped_container()
