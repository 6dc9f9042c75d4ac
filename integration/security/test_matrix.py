"""Every client and every command with every mechanism and with only the rights that it needs, and
without each of these rights, on processes and on containers.

The cells are data, in `integration.security.matrix`. Clients and commands of one cell use topics,
and users of a withheld right, of their own.
"""

from __future__ import annotations

import json
import logging
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from assignors.connection import kafka_python_settings
from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor, read_from_nearest
from integration.clients.test_security import CLIENTS
from integration.security.cluster import PRINCIPALS, grant, run_with_acls
from integration.security.matrix import (
    COMMANDS,
    GROUP,
    MECHANISMS,
    OTHER_TOPIC,
    PARTS,
    PENDING_REPLICAS,
    PROCESSES,
    TOPIC,
    Right,
    table,
)
from integration.support.clients import KafkaPython, partitions_of
from integration.support.command_line import ROOT, rackward
from integration.support.groups import ConsumerGroup
from integration.support.leading import UNMODIFIED_CLIENTS, membership_times
from integration.support.secured import KEY_PASSWORD, PASSWORD, Secured
from integration.support.topics import create_topic, create_topics
from rackward.lead import GroupLeader
from rackward.testing import Cluster, DockerCluster, LocalCluster
from tests.support.security import SECRET, write_file
from tests.support.waiting import TEST_TIMEOUT, wait_until

SHARED = "shared"
"""The topic of commands that change nothing, with two records in each of two partitions."""

RUNTIMES: dict[str, type[LocalCluster] | type[DockerCluster]] = {
    "local": LocalCluster,
    "docker": DockerCluster,
}
PLAINTEXT = "plaintext"


@dataclass(frozen=True)
class Cell:
    """One run: a part of the matrix, and the right that its user lacks, or its mechanism."""

    part: str
    mechanism: str = PLAINTEXT
    withheld: Right | None = None

    @property
    def name(self) -> str:
        """A name for its topic and its user."""
        text = f"{self.part}-{self.mechanism}-{self.withheld or 'all'}"
        return re.sub(r"[^A-Za-z0-9]+", "-", text).lower()

    @property
    def user(self) -> str:
        """The user of its own that lacks a right, or the mechanism's."""
        return "alice" if self.withheld is None else self.name

    @property
    def principal(self) -> str:
        return PRINCIPALS[self.mechanism] if self.withheld is None else f"User:{self.name}"

    @property
    def rights(self) -> set[Right]:
        part = PARTS[self.part]
        return set(part.rights) if self.withheld is None else part.without(self.withheld)

    @property
    def topic(self) -> str:
        return self.name if self.is_change or self.part in PROCESSES else SHARED

    @property
    def is_change(self) -> bool:
        """Whether the command changes its topic."""
        return self.part in CHANGES

    @property
    def group(self) -> str:
        """The group of a client that joins one of its own."""
        return f"group-{self.name}"


CHANGES = (
    "topics create",
    "topics add-partitions",
    "placement apply",
    "placement cancel",
    "leaders apply",
)
WITH_MECHANISMS = [Cell(part, mechanism) for mechanism in MECHANISMS for part in PARTS]
WITHOUT_RIGHTS = [
    Cell(name, PLAINTEXT, right) for name, part in PARTS.items() for right in part.rights
]


class Matrix:
    """The cluster with all topics, users and rights, and the outcome of each cell."""

    def __init__(self, secured: Secured, folder: Path, readers: ConsumerGroup) -> None:
        self.secured, self.folder, self.readers = secured, folder, readers

    def run(self, cell: Cell, expected: str | None) -> str:
        """Return all output of a cell; of a process, as soon as the expected text is there.

        Raises AssertionError if it ends otherwise: without a text to expect it has to succeed.
        """
        properties = {
            "bootstrap.servers": self.secured.cluster.bootstrap(cell.mechanism),
            **self.secured.properties(cell.mechanism, cell.user),
        }
        if cell.part in COMMANDS:
            return self._run_command(cell, properties, succeeds=expected is None)
        run: Callable[[Cell, dict[str, Any], str | None], str] = {
            "nearest replica": self._run_nearest,
            "lead": self._run_lead,
            "controller": self._run_controller,
        }.get(cell.part, self._run_client)
        return run(cell, properties, expected)

    def _run_command(self, cell: Cell, properties: dict[str, Any], *, succeeds: bool) -> str:
        where = properties.pop("bootstrap.servers")
        file = self.folder / f"{cell.name}.out"
        values = {"topic": cell.topic, "group": self.readers.id, "file": str(file)}
        cluster = self.secured.cluster
        for name, plan in (
            ("moves", ("placement", "plan", "--topics", cell.topic, "--drain", "1")),
            ("leaders", ("leaders", "plan", "--readers", "a=1", "--topics", cell.topic)),
        ):
            if f"{{{name}}}" in COMMANDS[cell.part].arguments:
                values[name] = str(self.folder / f"{cell.name}.{name}")
                rackward(cluster, *plan, "-o", values[name])
        arguments = [each.format(**values) for each in COMMANDS[cell.part].arguments]
        if arguments[:2] == ["traffic", "collect"]:
            arguments += ["--cluster", f"here={where}"]
        config = self._write(cell, properties)
        done = rackward(where, *arguments, "--command-config", config, status=None)
        if succeeds:
            assert done.status == 0, done
        return done.out + done.err

    def _write(self, cell: Cell, properties: Mapping[str, Any]) -> str:
        lines = "".join(f"{key}={value}\n" for key, value in properties.items())
        return write_file(self.folder, f"{cell.name}.properties", lines)

    def _run_client(self, cell: Cell, properties: dict[str, Any], expected: str | None) -> str:
        """Join a group with rackward's assignor; read and commit."""
        output = Output()
        make, settings = CLIENTS[cell.part](properties)
        for key in ("bootstrap.servers", "bootstrap_servers"):
            settings.pop(key, None)
        if cell.part == "kafka-python":
            settings["bootstrap_timeout_ms"] = 20_000
        group = ConsumerGroup(self.secured.cluster, topics=[cell.topic], client=make)
        group.id = cell.group
        with output, group:
            member = group.start("reader", cell.mechanism, **settings)
            if expected is None:
                group.settle(partitions_of(cell.topic, 2))
                wait_until(
                    lambda: all(
                        group.reads_of(tp).offsets() for tp in group.members["reader"].owned
                    ),
                    TEST_TIMEOUT,
                    f"{cell} reads",
                )
                return output.text
            if cell.withheld == Right("Describe", OTHER_TOPIC):
                # The first member leads, and may not describe what the second one reads.
                group.settle(partitions_of(cell.topic, 2))
                other = f"{cell.topic}-other"
                group.start("other", client=make, topics=[other])
            wait_until(
                lambda: expected in output.text + describe(member.error),
                TEST_TIMEOUT,
                f"{cell} reports {expected}",
            )
            group.members.pop("reader").stop()
            return output.text + describe(member.error)

    def _run_nearest(self, cell: Cell, properties: dict[str, Any], expected: str | None) -> str:
        consumer = KafkaConsumer(
            **kafka_python_settings(properties), auto_offset_reset="earliest", group_id=None
        )
        try:
            read_from_nearest(consumer, rack="a")
            consumer.assign([TopicPartition(cell.topic, 0)])
            deadline = time.monotonic() + TEST_TIMEOUT
            while not consumer.poll(timeout_ms=200):
                assert time.monotonic() < deadline, f"{cell} reads nothing"
        except Exception as error:
            if expected is None:
                raise AssertionError(f"{cell}: {describe(error)}") from error
            return describe(error)
        finally:
            consumer.close()
        return ""

    def _run_lead(self, cell: Cell, properties: dict[str, Any], expected: str | None) -> str:
        output = Output()
        group = ConsumerGroup(
            self.secured.cluster, topics=[cell.topic], client=UNMODIFIED_CLIENTS["confluent-range"]
        )
        group.id = cell.group

        def text() -> str:
            return output.text + " ".join(each.reason for each in leader.status())

        def is_done() -> bool:
            if expected is not None:
                return expected in text()
            return all(each.leads and each.metrics.partitions == 2 for each in leader.status())

        # First the process, so that it leads and removes no member.
        with membership_times(), output, GroupLeader(properties, [group.id]) as leader, group:
            wait_until(
                lambda: any(each.leads or each.reason for each in leader.status()),
                TEST_TIMEOUT,
                f"{cell} leads, or says why not",
            )
            group.start("m1", "a")
            wait_until(is_done, TEST_TIMEOUT, f"{cell}: {expected or 'it leads'}")
            return text()

    def _run_controller(self, cell: Cell, properties: dict[str, Any], expected: str | None) -> str:
        where = properties.pop("bootstrap.servers")
        config = self.folder / f"{cell.name}.json"
        cluster = {
            "bootstrap_servers": where,
            "command_config": self._write(cell, properties),
        }
        config.write_text(json.dumps({"cluster": cluster, "health": {"listen": "127.0.0.1:0"}}))
        log = self.folder / f"{cell.name}.log"
        command = [sys.executable, "-m", "rackward.cli.main", "controller", "--config", str(config)]
        with log.open("w") as file:
            process = subprocess.Popen(command, stdout=file, stderr=file, cwd=ROOT)
        try:
            wait_until(
                lambda: (expected or "active controller") in log.read_text(),
                2 * TEST_TIMEOUT,
                f"{cell}: {expected or 'it is active'}",
            )
        except AssertionError as error:
            raise AssertionError(f"{error}; its log: {log.read_text()[-2000:]}") from None
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(TEST_TIMEOUT)
        return log.read_text()


class Output(logging.Handler):
    """Collects log lines of every level while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[str] = []
        self._level = logging.getLogger().level

    @property
    def text(self) -> str:
        return "\n".join(self._lines)

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())

    def __enter__(self) -> Output:
        root = logging.getLogger()
        root.setLevel(logging.INFO)
        root.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        root = logging.getLogger()
        root.removeHandler(self)
        root.setLevel(self._level)


def describe(error: BaseException | None) -> str:
    """Return type and text of an error; empty without one."""
    return "" if error is None else f"{type(error).__name__}: {error} {error!r}"


@pytest.fixture(scope="module")
def matrix(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Matrix]:
    folder = tmp_path_factory.mktemp("matrix")
    cells = [*WITH_MECHANISMS, *WITHOUT_RIGHTS]
    users = [cell.name for cell in WITHOUT_RIGHTS]
    with ExitStack() as stack:
        secured = stack.enter_context(run_with_acls(RUNTIMES[request.param], folder, users))
        cluster = secured.cluster
        topics = {SHARED: [[0, 1], [1, 0]]}
        for cell in cells:
            if cell.part in PROCESSES:
                topics |= {cell.topic: [[0, 1], [1, 0]], f"{cell.topic}-other": [[0]]}
            elif cell.is_change and cell.part != "topics create":
                topics[cell.topic] = [[1, 0]] if cell.part == "leaders apply" else [[1]]
        create_topics(cluster, topics)
        create_topic(cluster, PENDING_REPLICAS, [[0, 1]], cleanup_policy="compact")
        # The record of pending replicas is invalid, which the commands ignore after reading it.
        send_records(
            cluster, [SHARED, *(c.topic for c in cells if c.part in PROCESSES), PENDING_REPLICAS]
        )
        client = KafkaPython(
            lambda _: [LeaderRackAwareCooperativeStickyAssignor("a", refresh=None)]
        )
        readers = stack.enter_context(ConsumerGroup(cluster, topics=[SHARED], client=client))
        readers.start("m1")
        readers.settle(partitions_of(SHARED, 2))
        grant(
            cluster,
            (
                (
                    cell.principal,
                    cell.rights,
                    {
                        TOPIC: cell.topic,
                        OTHER_TOPIC: f"{cell.topic}-other",
                        GROUP: cell.group if cell.part in PROCESSES else readers.id,
                    },
                )
                for cell in cells
            ),
        )
        yield Matrix(secured, folder, readers)


def send_records(cluster: Cluster, topics: Sequence[str]) -> None:
    """Send a record to each partition: one of PENDING_REPLICAS, two of every other topic."""
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers.split(","), acks="all")
    for topic in topics:
        for partition in range(1 if topic == PENDING_REPLICAS else 2):
            producer.send(topic, key=b"x", value=b"x", partition=partition)
    producer.flush(TEST_TIMEOUT)
    producer.close()


each_runtime = pytest.mark.parametrize(
    "matrix", ["local", pytest.param("docker", marks=pytest.mark.docker)], indirect=True
)


def check_cells(matrix: Matrix, cells: list[Cell]) -> None:
    """Run the cells; raise AssertionError with all that is wrong with their outcomes."""
    found: dict[Cell, str] = {}
    for cell in cells:
        if wrong := check_cell(matrix, cell):
            found[cell] = f"{cell.name}: {wrong}"
    assert not found, "\n".join(found.values())


def check_cell(matrix: Matrix, cell: Cell) -> str | None:
    """Run a cell; return what is wrong with its outcome."""
    template = None if cell.withheld is None else PARTS[cell.part].rights[cell.withheld]
    group = cell.group if cell.part in PROCESSES else matrix.readers.id
    expected = template and template.format(topic=cell.topic, group=group)
    try:
        output = " ".join(matrix.run(cell, expected).split())
    except AssertionError as error:
        return str(error)[:1500]
    if expected is not None and expected not in output:
        return f"no {expected!r} in {output[:1500]!r}"
    if any(secret in output for secret in (PASSWORD, KEY_PASSWORD, SECRET)):
        return "a secret is in the output"
    return f"a traceback: {output[:1500]}" if "Traceback" in output else None


@pytest.mark.slow
@pytest.mark.timeout(1800)
@each_runtime
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_rights_suffice_with_every_mechanism(matrix: Matrix, mechanism: str) -> None:
    check_cells(matrix, [each for each in WITH_MECHANISMS if each.mechanism == mechanism])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@each_runtime
@pytest.mark.parametrize("part", PARTS)
def test_an_error_names_the_right_that_is_missing(matrix: Matrix, part: str) -> None:
    check_cells(matrix, [each for each in WITHOUT_RIGHTS if each.part == part])


def test_the_table_in_the_documentation() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    begin, end = "<!-- from integration/security/matrix.py -->\n\n", "\n\n<!-- end -->"
    assert text.partition(begin)[2].partition(end)[0] == table()


def test_names_of_cells_are_names_of_topics_and_differ() -> None:
    names = [cell.name for cell in (*WITH_MECHANISMS, *WITHOUT_RIGHTS)]
    assert len(names) == len(set(names))
    assert max(map(len, names)) < 100
