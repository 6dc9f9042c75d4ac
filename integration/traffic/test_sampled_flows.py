"""Flow records of real clients in racks that are networks, beside the counters of the brokers.

Producers, a group one of whose members declares another rack than its own, and a consumer that
assigns partitions itself.
"""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from deltalake import DeltaTable

from integration.support.command_line import rackward, running
from integration.support.rack_networks import (
    RECORD_BYTES,
    Client,
    ClientConfig,
    RackNetworks,
)
from integration.support.secured import Listener, secured_properties
from integration.support.topics import committed, create_topic, described
from integration.support.traffic import SHORT_RUN
from tests.support.security import make_authority, write_file
from tests.support.waiting import TEST_TIMEOUT, wait_until

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(os.geteuid() != 0, reason="reading the kernel's counters needs root"),
]

RECORDS = {"a": 2400, "c": 1200}
"""What a producer in each rack sends."""

RACKS = ("a", "b", "c")
PARTITIONS = 6
SAMPLE = (sys.executable, "-m", "rackward.cli.main", "traffic", "flows", "sample")
HEADERS = 52
"""Bytes of the headers of IP and TCP, with time stamps, in a packet."""

Key = TypeVar("Key")

Bytes = Counter[tuple[str, str, str]]
"""By (kind, rack that sent, rack that received)."""


@contextmanager
def accounting() -> Iterator[None]:
    setting = Path("/proc/sys/net/netfilter/nf_conntrack_acct")
    before = setting.read_text()
    setting.write_text("1")
    try:
        yield
    finally:
        setting.write_text(before)


@contextmanager
def sampling(folder: Path, interval: int = 2, *prefix: str) -> Iterator[None]:
    """Run `rackward traffic flows sample`, after a command that enters a namespace if given."""
    command = [*prefix, *SAMPLE, "-o", str(folder), "--interval", str(interval)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            first = process.stderr.readline()
            assert "sampling" in first, first + process.stderr.read()
            yield
            process.send_signal(signal.SIGINT)
            errors = process.communicate(timeout=TEST_TIMEOUT)[1]
            assert process.returncode == 128 + signal.SIGINT, errors
        finally:
            process.kill()


def read_rows(folder: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for file in sorted(folder.glob("flows-*.json.gz"))
        for line in gzip.decompress(file.read_bytes()).splitlines()
    ]


@contextmanager
def collecting(cluster: RackNetworks, folder: Path) -> Iterator[None]:
    """Take a snapshot every second from before the block until after it."""
    servers = f"here={cluster.bootstrap_servers}"
    command = ("traffic", "collect", "--cluster", servers, "-o", folder, "--interval", 1)

    with running(cluster, *command) as collector:
        wait_for_snapshots(folder)
        yield
        wait_for_snapshots(folder)
        done = collector.send(signal.SIGINT)
        assert done.status == 128 + signal.SIGINT, done.err


def wait_for_snapshots(folder: Path) -> None:
    """Wait for two more: one that has begun may be from before."""

    def count() -> int:
        return len([*folder.glob("partitions/*/*.parquet")])

    seen = count()
    wait_until(lambda: count() > seen + 1, TEST_TIMEOUT, "two more snapshots")


@dataclass(frozen=True)
class Figures:
    """What was sent, as sampled and as counted by brokers."""

    folder: Path
    clients: dict[str, Client]
    rows: list[dict[str, Any]]
    sampled: Bytes
    packets: Bytes
    counted: Bytes


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Figures:
    return measure(tmp_path_factory.mktemp("flows"))


def measure(
    folder: Path, server_properties: Mapping[str, str] | None = None, ca: str | None = None
) -> Figures:
    """Run the clients on a new cluster, with ``ca`` if its listeners have TLS."""
    with ExitStack() as stack:
        stack.enter_context(accounting())
        cluster = stack.enter_context(RackNetworks(RACKS, server_properties))
        replicas = [[p % 3, (p + 1) % 3, (p + 2) % 3] for p in range(PARTITIONS)]
        topic = create_topic(cluster, "orders", replicas)
        with sampling(folder / "flows"), collecting(cluster, folder / "snapshots"):
            before = counted(cluster)
            clients = run_clients(cluster, topic, ca, folder / "snapshots")
            after = counted(cluster)
        rows = read_rows(folder / "flows")
        networks = {f"{subnet}.0/24": rack for rack, subnet in cluster.subnets.items()}
        (folder / "addresses.json").write_text(json.dumps({"racks": networks}))
        sampled, packets = by_rack(cluster, rows)
    return Figures(folder, clients, rows, sampled, packets, after - before)


def run_clients(
    cluster: RackNetworks, topic: str, ca: str | None, snapshots: Path
) -> dict[str, Client]:
    """A group, one member in c that declares a; two producers; then a reader that assigns."""
    clients: dict[str, Client] = {}

    def start(name: str, network: str, **settings: Any) -> None:
        servers = cluster.bootstrap_of(network)
        config = ClientConfig(servers, topic, PARTITIONS, ca=ca, **settings)
        clients[name] = cluster.start_client(network, config)

    def end(*names: str) -> None:
        for name in names:
            clients[name].process.communicate("", TEST_TIMEOUT)
            assert clients[name].process.returncode == 0, name

    try:
        for network, rack in ("aa", "bb", "ca"):
            start(f"member in {network}", network, group="readers", rack=rack)

        def is_settled() -> bool:
            (group,) = described(cluster, "readers")
            # Empty until the leader has assigned.
            assignments = [each["member_assignment"] or {} for each in group["members"]]
            shares = [
                sum(len(of_topic["partitions"]) for of_topic in each.get("assigned_partitions", ()))
                for each in assignments
            ]
            return shares == [2, 2, 2]

        wait_until(is_settled, TEST_TIMEOUT, "each member has two partitions")
        # The estimate begins at the first commits that snapshots have.
        start("first producer", "b", records=PARTITIONS)
        assert clients["first producer"].process.wait(TEST_TIMEOUT) == 0
        wait_for_commits(cluster, PARTITIONS)
        wait_for_snapshots(snapshots)
        start("producer in a", "a", records=RECORDS["a"])
        start("producer in c", "c", records=RECORDS["c"])
        for name in ("producer in a", "producer in c"):
            assert clients[name].process.wait(TEST_TIMEOUT) == 0
        total = PARTITIONS + sum(RECORDS.values())
        start("assigning", "b", group="assigning", subscribe=False, records=total)
        assert clients["assigning"].process.wait(TEST_TIMEOUT) == 0
        wait_for_commits(cluster, total)
    finally:
        end(*clients)
    return clients


def wait_for_commits(cluster: RackNetworks, records: int) -> None:
    wait_until(
        lambda: sum(committed(cluster, "readers").values()) == records,
        TEST_TIMEOUT,
        f"the group has committed {records} records",
    )


def counted(cluster: RackNetworks) -> Bytes:
    """Return the bytes that brokers have counted since their start."""
    racks = cluster.racks
    total: Bytes = Counter()
    for (rack, broker), sent in cluster.bytes_in().items():
        total["produce", rack, str(racks[broker])] += sent
    for (rack, broker), sent in cluster.bytes_out().items():
        total["consume", str(racks[broker]), rack] += sent
    for (leader, follower), sent in cluster.bytes_replicated().items():
        total["replicate", str(racks[leader]), str(racks[follower])] += sent
    return total


def by_rack(cluster: RackNetworks, rows: list[dict[str, Any]]) -> tuple[Bytes, Bytes]:
    """Return bytes and packets of the records that are of Kafka's clients and replication."""
    racks = cluster.racks
    brokers = {
        cluster.address(rack, broker): str(racks[broker]) for rack in RACKS for broker in racks
    }
    networks = {subnet: rack for rack, subnet in cluster.subnets.items()}
    listeners = {cluster.port_of(rack) for rack in RACKS}
    sampled: Bytes = Counter()
    packets: Bytes = Counter()
    for row in rows:
        source, destination = (row[f"{side}_address"] for side in ("source", "destination"))
        if destination in brokers and row["destination_port"] in listeners:
            key = "produce", networks[source.rpartition(".")[0]], brokers[destination]
        elif source in brokers and row["source_port"] in listeners:
            key = "consume", brokers[source], networks[destination.rpartition(".")[0]]
        elif source in brokers and row["source_port"] == cluster.internal_port:
            key = "replicate", brokers[source], brokers[destination]
        else:
            continue
        sampled[key] += row["bytes"]
        packets[key] += row["packets"]
    return sampled, packets


def test_sampled_bytes_are_those_that_brokers_count(figures: Figures) -> None:
    """Less the headers, within 1 %; a kilobyte is allowed for what is no payload."""
    assert figures.counted.keys() == figures.sampled.keys()
    for key, bytes_ in figures.counted.items():
        payload = figures.sampled[key] - HEADERS * figures.packets[key]
        assert payload == pytest.approx(bytes_, rel=0.01, abs=1000), key


def test_each_client_is_seen_by_its_address(figures: Figures) -> None:
    """Producers, members, also that with a wrong rack, and the reader that is in no group."""
    records = sum(RECORDS.values())
    of_group = 2 * records // PARTITIONS
    for name, sent, read in (
        ("producer in a", RECORDS["a"], 0),
        ("producer in c", RECORDS["c"], 0),
        ("member in a", 0, of_group),
        ("member in b", 0, of_group),
        ("member in c", 0, of_group),
        ("assigning", 0, records),
    ):
        address = figures.clients[name].address
        for column, expected in (("source_address", sent), ("destination_address", read)):
            bytes_ = sum(row["bytes"] for row in figures.rows if row[column] == address)
            payload = expected * RECORD_BYTES
            # Headers, batches that a full response cuts, which are sent twice, and requests and
            # responses: one for each record if the machine is busy, and those while waiting.
            requests = 200 * max(sent, read) + 100_000
            assert payload <= bytes_ <= 1.05 * payload + requests, (name, column)


def large(bytes_: Mapping[Key, int]) -> dict[Key, int]:
    """Return what is not only requests and responses without records."""
    return {key: each for key, each in bytes_.items() if each > 1_000_000}


@pytest.mark.slow
def test_the_pipeline_measures_and_names_them(figures: Figures) -> None:
    """Within 1.5 % of what brokers count, of which the headers are up to 0.9 %."""
    rows = run_pipeline(figures)["flows_hourly"]
    measured: Bytes = Counter()
    in_no_group: Counter[str] = Counter()
    elsewhere: Counter[str] = Counter()
    names = {client.address: name for name, client in figures.clients.items()}
    for row in rows:
        kind, sender, receiver, bytes_ = (
            row[name] for name in ("kind", "from_rack", "to_rack", "bytes")
        )
        if kind == "consume":
            # The member in c declares a.
            if receiver != row["network_rack"]:
                elsewhere[f"{names[row['client']]} declares {receiver}"] += bytes_
            receiver = row["network_rack"]
        measured[kind, sender, receiver] += bytes_
        if row["groups"] == 0:
            in_no_group[f"{names[row['client']]}: {kind}"] += bytes_
    assert large(measured) == pytest.approx(large(figures.counted), rel=0.015)

    records = sum(RECORDS.values())
    assert large(in_no_group) == pytest.approx(
        {
            "producer in a: produce": RECORDS["a"] * RECORD_BYTES,
            "producer in c: produce": RECORDS["c"] * RECORD_BYTES,
            "assigning: consume": records * RECORD_BYTES,
        },
        rel=0.05,
    )
    of_member = 2 * records // PARTITIONS * RECORD_BYTES
    assert large(elsewhere) == pytest.approx({"member in c declares a": of_member}, rel=0.02)


@pytest.mark.slow
def test_the_estimate_is_that_of_the_network(figures: Figures) -> None:
    """Within 2.5 % per pair of racks, for the group and for replication; for producers, whose racks
    are assumed in hours that flow records do not cover, per rack that is written to.
    """
    tables = run_pipeline(figures)
    estimated: Bytes = Counter()
    measured: Bytes = Counter()
    for name, sums in (("hourly", estimated), ("flows_hourly", measured)):
        for row in tables[name]:
            if row["kind"] != "consume" or row["group"] == "readers":
                sender = "all" if row["kind"] == "produce" else row["from_rack"]
                sums[row["kind"], sender, row["to_rack"]] += row["bytes"]
    report(estimated, measured)
    # Up to 0.9 % are headers; the first record of each partition is in the flows alone.
    assert large(estimated) == pytest.approx(large(measured), rel=0.025)


@pytest.mark.slow
def test_tls_adds_little(tmp_path: Path) -> None:
    """Up to 1.5 % of what brokers count before encryption: librdkafka encrypts small pieces."""
    authority = make_authority()
    properties = secured_properties(authority, [Listener("SSL")] * len(RACKS), {})
    figures = measure(tmp_path, properties, ca=write_file(tmp_path, "ca.pem", authority.pem))
    payload: Bytes = Counter()
    for key, bytes_ in figures.sampled.items():
        payload[key] = bytes_ - HEADERS * figures.packets[key]
    report(figures.counted, payload)
    for key, bytes_ in large(figures.counted).items():
        # Followers fetch without TLS.
        encrypted = key[0] != "replicate"
        assert bytes_ * (1.001 if encrypted else 0.99) <= payload[key] <= bytes_ * 1.015, key


def run_pipeline(figures: Figures) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the tables hourly and flows_hourly."""
    folder = figures.folder
    if not (folder / "tables").exists():
        options = ("--flows", folder / "flows", "--flow-addresses", folder / "addresses.json")
        done = rackward(
            "127.0.0.1:1",
            *("traffic", "run", folder / "snapshots", folder / "tables", *options, *SHORT_RUN),
        )
        print(done.out)
    return {
        name: DeltaTable(folder / "tables" / name).to_pyarrow_table().to_pylist()
        for name in ("hourly", "flows_hourly")
    }


def report(first: Bytes, second: Bytes) -> None:
    """Print both and the difference, for -s."""
    for key in sorted(large(first)):
        print(*key, f"{first[key]:,} {second[key]:,} {second[key] / first[key] - 1:+.2%}")


CONNECTIONS = """
import socket, struct, threading

def read(server):
    while True:
        connection = server.accept()[0]
        try:
            while connection.recv(65536):
                pass
        except ConnectionResetError:
            pass
        connection.close()
        ended.release()

ended = threading.Semaphore(0)
server = socket.create_server(("127.0.0.1", 9092))
threading.Thread(target=read, args=(server,), daemon=True).start()
for number in range(200):
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if number % 2:
        # Five ports in turn, and an end by RST.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.bind(("127.0.0.1", 20000 + number % 10))
    client.connect(("127.0.0.1", 9092))
    client.sendall(bytes(10_000))
    client.close()
    ended.acquire()
"""


def test_no_byte_of_ended_connections_is_lost(tmp_path: Path) -> None:
    """Two hundred connections on loopback that end, or are followed by others on their ports."""
    with ExitStack() as stack:
        holder = stack.enter_context(
            subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE)
        )
        own = Path("/proc/self/ns/net").readlink()
        namespace = Path(f"/proc/{holder.pid}/ns/net")
        wait_until(lambda: namespace.readlink() != own, TEST_TIMEOUT, "a new network namespace")
        enter = "nsenter", f"--net={namespace}"
        off = "sysctl", "-qw", "net.netfilter.nf_conntrack_acct=0"
        subprocess.run([*enter, *off], check=True)
        refused = subprocess.run(
            [*enter, *SAMPLE, "-o", str(tmp_path)], capture_output=True, text=True, check=False
        )
        assert refused.returncode == 2
        assert "sysctl -w net.netfilter.nf_conntrack_acct=1" in refused.stderr
        for command in (
            "ip link set lo up",
            "sysctl -qw net.netfilter.nf_conntrack_acct=1",
            "sysctl -qw net.netfilter.nf_conntrack_tcp_timeout_time_wait=1",
            "iptables -A OUTPUT -m conntrack --ctstate INVALID",
        ):
            subprocess.run([*enter, *command.split()], check=True)
        stack.enter_context(sampling(tmp_path, 60, *enter))
        subprocess.run([*enter, sys.executable, "-c", CONNECTIONS], check=True)
    rows = [row for row in read_rows(tmp_path) if row["destination_port"] == 9092]
    assert {row["source_address"] for row in rows} == {"127.0.0.1"}
    sent, packets = (sum(row[column] for row in rows) for column in ("bytes", "packets"))
    # The first packet of a connection has eight more bytes of options.
    assert sent - HEADERS * packets == 200 * (10_000 + 8)
