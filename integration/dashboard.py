"""Shows deploy/grafana.json's panels with data of real processes, without Grafana.

python -m integration.dashboard --prometheus /usr/bin/prometheus --page panels.html

A Prometheus scrapes consumers with rackward's assignors, `rackward lead` and a controller while
leaders move, members come and go, a group is taken over, a broker stops and a topic lacks replicas.
Then every expression of the dashboard is evaluated over that time. The program prints a line per
expression, writes curves to a page, and exits with 1 if an expression has no series, or values that
cannot be true.
"""

from __future__ import annotations

import argparse
import json
import math
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server

from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor
from assignors.metrics import AssignmentCollector
from integration.support.clients import partitions_of
from integration.support.command_line import ROOT
from integration.support.controllers import (
    controller,
    create_under_replicated,
    stop_brokers,
    wait_for_active,
    wait_for_replicas,
)
from integration.support.groups import ConsumerGroup
from integration.support.leading import FAST, UNMODIFIED_CLIENTS
from integration.support.topics import create_topic
from placement_core import RackwardError, TopicPartition
from rackward.placement_service.client import create_replica_placement
from rackward.testing import Cluster, LocalCluster
from rackward.testing.broker_config import free_ports
from tests.support.waiting import wait_until

NO_BROKER = 77
TIMEOUT = 300.0
"""Seconds until a process must have done what is waited for."""
SCRAPE_SECONDS = 2
PHASE_SECONDS = 20.0
"""Seconds between two events, so that each of them is visible in several scrapes."""

Values = Sequence[float]
Check = Callable[[Values], bool]


def share(values: Values) -> bool:
    """Return whether all values are shares."""
    return all(0 <= each <= 1 for each in values)


def not_negative(values: Values) -> bool:
    """Return whether no value is below 0."""
    return min(values) >= 0


def between(low: float, high: float) -> Check:
    """Return a check that the greatest value is within these bounds, and that none is negative."""
    return lambda values: min(values) >= 0 and low <= max(values) <= high


ZERO = between(0, 0)

# By title, legend without labels -> what the values of all series together have to be.
CHECKS: Mapping[tuple[int, str], Check] = {
    (2, "A"): lambda values: share(values) and max(values) > 0,
    (3, "A"): not_negative,
    (4, "A"): between(3, 3),
    (5, "A"): between(2, 100),
    (6, "A"): between(1, 12),
    (6, "B"): between(0, 12),
    (7, "A"): between(1e-6, 60),
    (9, "A"): between(2, 2),
    (10, "A"): between(0, 2),
    (11, "A"): share,
    (12, "A"): lambda values: share(values) and max(values) > 0,
    # Leaders that have moved to where their readers are lower it.
    (13, "A"): lambda values: min(values) >= -12 and 1 <= max(values) <= 12,
    (14, "A"): between(2, 3),
    (15, "A"): between(1, TIMEOUT * 10),
    (29, "A"): between(2, 100),
    (30, "A"): between(1, 10),
    (30, "B"): between(1, 10),
    (17, "A"): between(1, 1),
    (18, "A"): between(4, 4),
    (19, "A"): between(4, 4),
    (20, "A"): between(0, 60),
    (21, "A"): between(1, 1),
    (21, "B"): between(4, 4),
    (21, "C"): not_negative,
    (22, "A"): not_negative,
    (23, "A"): between(1, 200),
    (23, "B"): not_negative,
    (24, "A"): between(1, 100),
    (24, "B"): ZERO,
    (26, "A"): not_negative,
    (26, "B"): between(0.01, 10),
    (27, "A"): between(1, 600),
    (27, "B"): between(1, 600),
    (27, "C"): between(0.1, 600),
    (28, "A"): ZERO,
    (28, "B"): ZERO,
    (28, "C"): ZERO,
    (28, "D"): between(0.1, 60),
    (28, "E"): ZERO,
}


@dataclass(frozen=True)
class Shown:
    """An expression of a panel, and its series over the whole time: label -> time -> value."""

    panel: Mapping[str, Any]
    target: Mapping[str, Any]
    series: Mapping[str, Mapping[float, float]]

    @property
    def problem(self) -> str | None:
        """What is wrong with it."""
        values = [value for each in self.series.values() for value in each.values()]
        if not values:
            return "no data"
        if any(map(math.isnan, values)):
            return "NaN"
        check = CHECKS.get((self.panel["id"], self.target["refId"]))
        if check is None:
            return "has no check in integration/dashboard.py"
        return None if check(values) else "values that cannot be true"

    @property
    def line(self) -> str:
        """A line for the terminal."""
        values = [value for each in self.series.values() for value in each.values()]
        bounds = f"{min(values):.4g} to {max(values):.4g}" if values else ""
        name = f"{self.panel['title']} {self.target['refId']}"
        return f"{name:45} {len(self.series):3} series  {bounds:22} {self.problem or 'ok'}"


class Prometheus:
    """A Prometheus that scrapes these addresses; its data are in ``folder``."""

    def __init__(self, program: str, folder: Path, jobs: Mapping[str, Sequence[str]]) -> None:
        (port,) = free_ports(1)
        self._url = f"http://127.0.0.1:{port}"
        scrapes = [
            {"job_name": name, "static_configs": [{"targets": list(addresses)}]}
            for name, addresses in jobs.items()
        ]
        config = folder / "prometheus.yml"
        config.write_text(
            json.dumps(
                {
                    "global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "scrape_timeout": "2s"},
                    "scrape_configs": scrapes,
                }
            )
        )
        with (folder / "prometheus.log").open("w") as log:
            self.process = subprocess.Popen(
                [
                    program,
                    f"--config.file={config}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                stdout=log,
                stderr=log,
            )
        self.began = time.time()

    def query(self, expression: str) -> Mapping[str, Mapping[float, float]]:
        """Return the series of an expression since the start."""
        form = urllib.parse.urlencode(
            {
                "query": expression,
                "start": self.began,
                "end": time.time(),
                "step": SCRAPE_SECONDS,
            }
        )
        with urllib.request.urlopen(f"{self._url}/api/v1/query_range?{form}", timeout=60) as answer:
            result = json.load(answer)["data"]["result"]
        return {
            json.dumps(each["metric"], sort_keys=True): {
                float(at): float(value) for at, value in each["values"]
            }
            for each in result
        }

    def is_ready(self) -> bool:
        """Return whether it has scraped every target."""
        try:
            up = self.query("sum(up) == count(up)")
        except (urllib.error.URLError, OSError):
            return False
        return bool(up)

    def close(self) -> None:
        """End the process."""
        self.process.terminate()
        self.process.wait(60)


def panels(prometheus: Prometheus) -> Iterator[Shown]:
    """Evaluate every expression of the dashboard, for all groups."""
    dashboard = json.loads((ROOT / "deploy" / "grafana.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            series = prometheus.query(target["expr"].replace("$group", ".*"))
            yield Shown(panel, target, series)


@contextmanager
def lead(cluster: Cluster, port: int, *groups: str) -> Iterator[None]:
    """Run ``rackward lead`` with metrics; it takes groups over."""
    refresh = "min_gain=0.01,stable_seconds=5,unstable_seconds=15,min_interval=5,check_interval=1"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "rackward.cli.main", "lead", *groups, "--yes"),
            *("--take-over", "remove", "--health", f"127.0.0.1:{port}", "--refresh", refresh),
            *("--bootstrap-server", cluster.bootstrap_servers),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def strategy(registry: CollectorRegistry, rack: str | None) -> list[Any]:
    """Return the assignor of one consumer, whose metrics are in the registry."""
    made = LeaderRackAwareCooperativeStickyAssignor(rack=rack, refresh=FAST)
    registry.register(AssignmentCollector(made))
    return [made]


def rotate(cluster: Cluster, topic: str, partitions: int, by: int) -> None:
    """Move every leader by so many brokers."""
    cluster.move_leaders({TopicPartition(topic, p): (p + by) % 3 for p in range(partitions)})


def send_garbage(address: str) -> None:
    """Send what is no frame of the placement service's protocol."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), 10) as connection, suppress(OSError):
        connection.sendall(b"\x7f\xff\xff\xffGET / HTTP/1.1\r\n")
        connection.recv(1)


def request_placements(address: str) -> None:
    """Request placements: nine that are possible and one that is not, and send garbage."""
    for number in range(10):
        with suppress(RackwardError):
            create_replica_placement(address, 3, 2, broker_ids=() if number else (NO_BROKER,))
    send_garbage(address)


def run(program: str, folder: Path, report: Callable[[str], None]) -> list[Shown]:
    """Run everything for some minutes; return every expression with its series."""
    with ExitStack() as stack:
        report("starting a cluster")
        cluster = stack.enter_context(LocalCluster(("a", "b", "c")))
        rows = [[p % 3, (p + 1) % 3, (p + 2) % 3] for p in range(6)]
        ours, theirs, taken = (create_topic(cluster, n, rows) for n in ("ours", "theirs", "taken"))
        lead_port, *consumer_ports = free_ports(4)
        registries = [CollectorRegistry() for _ in consumer_ports]
        for port, registry in zip(consumer_ports, registries, strict=True):
            server, _ = start_http_server(port, addr="127.0.0.1", registry=registry)
            stack.callback(server.shutdown)
        running = stack.enter_context(controller(cluster, folder))
        wait_for_active(running)
        stock = UNMODIFIED_CLIENTS["confluent-cooperative-sticky"]
        group = stack.enter_context(ConsumerGroup(cluster, topics=[ours]))
        led = stack.enter_context(ConsumerGroup(cluster, topics=[theirs], client=stock))
        had = stack.enter_context(ConsumerGroup(cluster, topics=[taken], client=stock))
        targets = {
            "consumers": [f"127.0.0.1:{port}" for port in consumer_ports],
            "lead": [f"127.0.0.1:{lead_port}"],
            "controller": [running.health_address],
        }
        had.start("a1", "a")
        had.start("b1", "b")
        had.settle(partitions_of(taken, 6), within=TIMEOUT)
        stack.enter_context(lead(cluster, lead_port, led.id, had.id))
        prometheus = Prometheus(program, folder, targets)
        stack.callback(prometheus.close)
        wait_until(prometheus.is_ready, TIMEOUT, "Prometheus has scraped every process")

        report("members join; rackward lead takes a group over")
        for rack, registry in zip("abc", registries, strict=True):
            group.start(rack, rack, strategies=strategy(registry, rack))
            led.start(f"{rack}1", rack)
        group.settle(partitions_of(ours, 6), within=TIMEOUT)
        led.settle(partitions_of(theirs, 6), within=TIMEOUT)
        time.sleep(PHASE_SECONDS)

        report("leaders move; groups follow")
        for topic in (ours, theirs, taken):
            rotate(cluster, topic, 6, 1)
        request_placements(running.service)
        time.sleep(2 * PHASE_SECONDS)

        report("a member leaves and returns")
        group.stop("b")
        led.stop("b1")
        time.sleep(PHASE_SECONDS)
        request_placements(running.service)

        report("a broker stops, and a topic lacks replicas")
        stop_brokers(cluster, 2)
        create_under_replicated(cluster, "short")
        time.sleep(PHASE_SECONDS)
        cluster.start_broker(2)
        wait_for_replicas(cluster, "short", within=TIMEOUT)
        request_placements(running.service)
        time.sleep(PHASE_SECONDS)
        report("evaluating every expression")
        return list(panels(prometheus))


def write_page(shown: Sequence[Shown], path: Path) -> None:
    """Write the curves of all panels, three in a row."""
    from plotly.graph_objects import Scatter
    from plotly.subplots import make_subplots

    by_panel: dict[int, list[Shown]] = {}
    for each in shown:
        by_panel.setdefault(each.panel["id"], []).append(each)
    titles = [f"{each[0].panel['id']}: {each[0].panel['title']}" for each in by_panel.values()]
    figure = make_subplots(rows=-(-len(titles) // 3), cols=3, subplot_titles=titles)
    for index, of_panel in enumerate(by_panel.values()):
        for each in of_panel:
            for label, values in each.series.items():
                start = min(values)
                figure.add_trace(
                    Scatter(
                        x=[at - start for at in values],
                        y=list(values.values()),
                        name=f"{each.target['refId']} {label}",
                    ),
                    row=index // 3 + 1,
                    col=index % 3 + 1,
                )
    figure.update_layout(height=260 * -(-len(titles) // 3), width=1500, showlegend=False)
    figure.write_html(path, include_plotlyjs=True)


def main() -> None:
    """Run with the arguments of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--prometheus", default="prometheus", help="the program")
    parser.add_argument("--page", type=Path, help="write the curves to this file")
    options = parser.parse_args()
    began = time.monotonic()

    def report(line: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {line}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as folder:
        shown = run(options.prometheus, Path(folder), report)
    for each in shown:
        print(each.line)
    if options.page is not None:
        write_page(shown, options.page)
    problems = [each for each in shown if each.problem]
    print(f"{len(shown)} expressions, {len(problems)} with problems")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
