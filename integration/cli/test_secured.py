"""Commands on a cluster with SASL, TLS and ACLs, where one broker has no rack."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType
from kafka.structs import OffsetAndMetadata

from integration.cli.conftest import layout
from integration.support.clients import PartitionId, partitions_of
from integration.support.collecting import read_table
from integration.support.command_line import Done, one_line, rackward
from integration.support.groups import ConsumerGroup
from integration.support.leading import (
    UNMODIFIED_CLIENTS,
    membership_times,
    wait_for_status,
    wait_until_leading,
)
from integration.support.proxy import Proxy
from integration.support.secured import (
    JAAS,
    KEY_PASSWORD,
    PASSWORD,
    Listener,
    Secured,
    authorizer_properties,
    run_secured,
    set_scram_password,
)
from integration.support.topics import create_topic, fill, new_name, with_admin
from integration.support.traffic import SHORT_RUN
from rackward.cli.lead import watch
from rackward.cli.options import ClusterOptions
from rackward.kafka import CredentialsError
from rackward.lead import GroupLeader, LeadOptions, TakeOver, TakeOverPolicy
from rackward.testing import Cluster
from tests.support.security import make_authority, write_file
from tests.support.waiting import TEST_TIMEOUT, wait_until

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
LISTENERS = {
    "plain": Listener("SASL_PLAINTEXT", ["PLAIN"]),
    "scram": Listener("SASL_SSL", MECHANISMS),
    "tls": Listener("SSL"),
    "mutual": Listener("SSL", client_certificate=True),
}


@dataclass(frozen=True)
class Commands(Secured):
    """A cluster of two brokers, one without a rack, and commands on it."""

    @property
    def folder(self) -> Path:
        return Path(self.files["ca"]).parent

    def run(self, listener: str, config: str, *arguments: str, status: int | None = 0) -> Done:
        path = write_file(self.folder, "client.properties", config)
        # Each broker has its own copy of the ACLs.
        self.cluster.await_metadata()
        where = self.cluster.bootstrap(listener)
        return rackward(where, *arguments, "--command-config", path, status=status)

    def error_line(self, listener: str, config: str, *arguments: str) -> str:
        """Run a command that fails; return its error line."""
        return one_line(self.run(listener, config, *arguments, status=2))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    folder = tmp_path_factory.mktemp("secured")
    other = write_file(folder, "other.pem", make_authority("a stranger").pem)
    acls = authorizer_properties("User:alice", "User:dora", "User:CN=client.example")
    users = ("bob", "carol")
    with run_secured(
        LISTENERS, folder, racks=("a", None), users=users, server_properties=acls
    ) as secured:
        yield Commands(**{**vars(secured), "files": {**secured.files, "other": other}})


def java(mechanism: str, password: str = PASSWORD, user: str = "alice") -> str:
    module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    return (
        f"sasl.mechanism={mechanism}\n"
        f"sasl.jaas.config={JAAS}.{module}LoginModule required \\\n"
        f'  username="{user}" password="{password}";\n'
    )


def librdkafka(mechanism: str, password: str = PASSWORD) -> str:
    return f"sasl.mechanisms={mechanism}\nsasl.username=alice\nsasl.password={password}\n"


def plain(user: str) -> str:
    """Return the properties of a user on the listener ``plain``."""
    return "security.protocol=SASL_PLAINTEXT\n" + java("PLAIN", user=user)


def allow(
    cluster: Cluster, user: str, kind: ResourceType, name: str, *operations: ACLOperation
) -> None:
    """Grant a user these operations on a resource; Describe if none is given."""
    pattern = ResourcePattern(kind, name)
    acls = [
        ACL(f"User:{user}", "*", operation, ACLPermissionType.ALLOW, pattern)
        for operation in operations or (ACLOperation.DESCRIBE,)
    ]
    with_admin(cluster, lambda admin: admin.create_acls(acls))


def commit(cluster: Cluster, group: str, offsets: Mapping[PartitionId, int]) -> None:
    """Commit offsets for the group with a consumer that is not a member."""
    servers = cluster.bootstrap_servers.split(",")
    positions = {TopicPartition(*tp): OffsetAndMetadata(at, "", -1) for tp, at in offsets.items()}
    settings = {"bootstrap_servers": servers, "group_id": group, "enable_auto_commit": False}
    with closing(KafkaConsumer(**settings)) as consumer:
        consumer.assign([*positions])
        consumer.commit(positions)


@contextmanager
def reading(cluster: Cluster, group: str, topic: str) -> Iterator[None]:
    """Have a member of the group own the partitions of the topic within the context."""
    servers = cluster.bootstrap_servers.split(",")
    with closing(KafkaConsumer(topic, bootstrap_servers=servers, group_id=group)) as consumer:
        wait_until(
            lambda: not consumer.poll(100) and bool(consumer.assignment()),
            TEST_TIMEOUT,
            "the member has partitions",
        )
        yield


def test_java_and_librdkafka_properties_on_every_listener(secured: Commands) -> None:
    files = secured.files
    java_trust = f"ssl.truststore.type=PEM\nssl.truststore.location={files['ca']}\n"
    configs = [
        ("plain", plain("alice")),
        ("plain", "security.protocol=sasl_plaintext\n" + librdkafka("PLAIN")),
        ("scram", "security.protocol=SASL_SSL\n" + java_trust + java("SCRAM-SHA-256")),
        ("scram", "security.protocol=sasl_ssl\n" + librdkafka("SCRAM-SHA-512")
         + f"ssl.ca.location={files['ca']}\n"),
        ("tls", f"security.protocol=ssl\nssl.ca.location={files['ca']}\n"),
        ("mutual", "security.protocol=SSL\n" + java_trust + "ssl.keystore.type=PEM\n"
         f"ssl.keystore.location={files['both']}\nssl.key.password={KEY_PASSWORD}\n"),
        ("mutual", f"security.protocol=ssl\nssl.ca.location={files['ca']}\n"
         f"ssl.certificate.location={files['certificate']}\nssl.key.location={files['key']}\n"
         f"ssl.key.password={KEY_PASSWORD}\n"),
    ]  # fmt: skip
    for listener, config in configs:
        output = secured.run(listener, config, "topics", "describe", "--json").json
        assert [broker["live"] for broker in output["brokers"]] == [True, True], config
        assert output["not_shown"] == []


def test_wrong_settings_give_one_line_with_the_remedy(secured: Commands) -> None:
    trust = f"ssl.ca.location={secured.files['ca']}\n"
    sasl_ssl = "security.protocol=SASL_SSL\n" + trust
    cases = [
        ("plain", "security.protocol=SASL_PLAINTEXT\n" + java("PLAIN", "hunter2"),
         "authentication failed"),
        ("scram", sasl_ssl + librdkafka("SCRAM-SHA-256", "hunter2"),
         "authentication failed"),
        ("scram", sasl_ssl + java("SCRAM-SHA-512", "hunter2", "nobody"),
         "authentication failed"),
        ("scram", sasl_ssl + java("PLAIN", "hunter2"),
         "set sasl.mechanism to one of SCRAM-SHA-256, SCRAM-SHA-512"),
        ("plain", "", "closed the connection (PLAINTEXT): the listener may require TLS or SASL"),
        ("plain", "security.protocol=SSL\n" + trust, "does not use TLS: set security.protocol"),
        ("tls", "", "requires TLS: set security.protocol to SSL or SASL_SSL"),
        ("tls", "security.protocol=SASL_SSL\n" + trust + java("PLAIN", "hunter2"),
         "has no SASL on this listener"),
        ("tls", "security.protocol=SSL\n", "is not trusted"),
        ("tls", f"security.protocol=SSL\nssl.ca.location={secured.files['other']}\n",
         "is not trusted"),
        ("mutual", "security.protocol=SSL\n" + trust, "client certificate"),
    ]  # fmt: skip
    for listener, config, message in cases:
        line = secured.error_line(listener, config, "topics", "describe")
        assert message in line, config
        assert "hunter2" not in line


def test_errors_name_missing_permissions(secured: Commands) -> None:
    create = ("topics", "create", new_name("bob"), "--yes", "--ignore-racks")
    error = secured.error_line("plain", plain("bob"), *create, "-p", "1", "-r", "1")
    assert "not authorized: grant this user Create on the cluster, or on the topic" in error
    shown = secured.run("plain", plain("bob"), "topics", "describe", "--json").json
    assert shown["topics"] == []
    ongoing, placeholders, throttles = shown["not_shown"]
    assert "grant this user Describe on the cluster" in ongoing
    assert placeholders.startswith("placeholders: ")
    assert placeholders.endswith("grant this user Describe on _rackward_pending_replicas")
    assert throttles.startswith("throttles: ")
    assert "grant this user DescribeConfigs" in throttles


def test_adding_partitions_needs_no_pending_replicas(secured: Commands) -> None:
    topic = create_topic(secured.cluster, new_name("bobs"), [[0]])
    rights = (ACLOperation.DESCRIBE, ACLOperation.ALTER)
    allow(secured.cluster, "bob", ResourceType.TOPIC, topic, *rights)
    add = ("topics", "add-partitions", topic, "--yes", "--ignore-racks", "--partitions", "2")
    done = secured.run("plain", plain("bob"), *add)
    assert "Pending replicas of these topics are not considered" in done.err
    assert "grant this user Describe on _rackward_pending_replicas" in done.err
    assert len(layout(secured.cluster, topic)) == 2


def test_permissions_of_a_process_that_leads(secured: Commands) -> None:
    """Read on the group, for removing members as well, and Describe on its topics."""
    cluster = secured.cluster
    topic = create_topic(cluster, new_name("led"), [[0], [1]])
    properties = {
        "bootstrap.servers": cluster.bootstrap("plain"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "bob",
        "sasl.password": PASSWORD,
    }
    options = LeadOptions(take_over=TakeOverPolicy(TakeOver.REMOVE))
    client = UNMODIFIED_CLIENTS["confluent-range"]
    with ConsumerGroup(cluster, topics=[topic], client=client) as group:
        group.start("a1", "a")
        group.start("a2", "a")
        group.settle(partitions_of(topic, 2))
        with GroupLeader(properties, [group.id], options) as leader:
            refused = wait_for_status(leader, lambda each: each.state == "refused", "it is refused")
            assert refused.reason == "not authorized: grant this user Read on the group"
            allow(cluster, "bob", ResourceType.GROUP, group.id, ACLOperation.READ)
            allow(cluster, "bob", ResourceType.TOPIC, topic)
            led = wait_for_status(leader, lambda each: each.metrics.members == 2, "it leads")
            assert (led.leads, led.metrics.partitions) == (True, 2)
            group.settle(partitions_of(topic, 2))
        workers = new_name("workers")
        divided = replace(options, worker_group=workers)
        with GroupLeader(properties, [group.id], divided) as leader:
            wait_until(
                lambda: (known := leader.workers) is not None and "Read" in known.reason,
                TEST_TIMEOUT,
                "the group of workers is refused",
            )
            assert leader.status() == ()
            allow(cluster, "bob", ResourceType.GROUP, workers, ACLOperation.READ)
            wait_until(lambda: bool(leader.status()), TEST_TIMEOUT, "it is the only worker")
            wait_for_status(leader, lambda each: each.metrics.members == 2, "it leads")


def test_a_process_that_leads_reads_a_rotated_password(
    secured: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a connection is refused; the command ends if the file has the former password still."""
    group = new_name("group")
    path = Path(secured.folder, "dora.properties")
    where = secured.cluster.bootstrap("scram")

    def rotate(password: str) -> None:
        set_scram_password(secured.cluster, "dora", password, MECHANISMS[1])

    def write(password: str) -> None:
        login = librdkafka("SCRAM-SHA-512", password).replace("alice", "dora")
        path.write_text(
            f"security.protocol=SASL_SSL\nssl.ca.location={secured.files['ca']}\n{login}"
        )

    read = ClusterOptions(where, path).properties
    rotate("first")
    write("first")
    with membership_times(), Proxy() as proxy:
        with monkeypatch.context() as patched:
            patched.setitem(KafkaAdminClient.DEFAULT_CONFIG, "proxy_url", proxy.url)
            leader = GroupLeader(read(), [group], read_properties=read)
        with leader:
            wait_until_leading(leader)
            proxy.cut()
            rotate("second")
            wait_for_status(leader, lambda each: not each.leads, "its connections are closed")
            proxy.mend()
            refused = wait_for_status(leader, lambda each: each.state == "refused", "it is refused")
            assert "authentication failed" in refused.reason
            with pytest.raises(CredentialsError, match="authentication failed"):
                watch(leader, as_json=True)
            write("second")
            wait_until_leading(leader)
            assert leader.failure is None


def test_permissions_of_the_collector(secured: Commands, tmp_path: Path) -> None:
    cluster, group = secured.cluster, new_name("readers")
    topic, hidden = (create_topic(cluster, new_name(stem), [[0], [1]]) for stem in ("seen", "not"))
    for each in (topic, hidden):
        fill(cluster, each, partitions=2, records=5, size=1000)
        commit(cluster, group, {(each, 0): 3, (each, 1): 4})

    permit, carol = partial(allow, cluster, "carol"), plain("carol")

    def collected(name: str) -> tuple[str, Path]:
        """Return the text on stderr, and the folder of the tables."""
        to = tmp_path / name
        command = ("traffic", "collect", "--once", "--output", str(to), "--groups", group)
        where = f"here={cluster.bootstrap('plain')}"
        return secured.run("plain", carol, *command, "--cluster", where).err, to

    def audited() -> Any:
        return secured.run("plain", carol, "audit", group, "--json").json

    assert audited()["groups"] == []
    errors, _ = collected("without rights")
    assert "no topics are visible; if there are any, grant this user Describe on them" in errors
    assert "no groups are visible; if there are any, grant this user Describe on them" in errors
    permit(ResourceType.TOPIC, topic)
    permit(ResourceType.GROUP, group)
    errors, to = collected("topics and groups")
    assert "are visible" not in errors
    assert "reading the sizes of replicas of broker 1: not authorized" in errors
    assert errors.count("grant this user Describe on the cluster") == 2
    assert errors.count("grant this user DescribeConfigs on the cluster") == 1
    assert errors.count("missing in the snapshot: ") == 3
    assert {(row["topic"], row["size_bytes"]) for row in read_table(to, "partitions")} == {
        (topic, None)
    }
    audit = audited()
    assert [(row["group"], row["state"]) for row in audit["groups"]] == [(group, "Empty")]
    for need in ("Describe on the cluster", f"DescribeConfigs on {topic}"):
        assert any(f"grant this user {need}" in fault for fault in audit["faults"]), audit["faults"]
    permit(ResourceType.CLUSTER, "kafka-cluster")
    permit(ResourceType.CLUSTER, "kafka-cluster", ACLOperation.DESCRIBE_CONFIGS)
    errors, to = collected("all of it")
    assert "missing in the snapshot" not in errors
    with reading(cluster, group, hidden):
        errors, _ = collected("a topic is not visible")
        hint = f"1 topic that groups read ({hidden}): grant this user Describe on them"
        assert hint in errors
        (row,) = audited()["groups"]
        assert (row["missing_topics"], row["partitions"]) == ([hidden], 0)
        # Commands that name a topic get an error.
        explain = secured.error_line("plain", carol, "groups", "explain", group)
        assert f"grant this user Describe on {hidden}" in explain
    check = ("placement", "check", "--fail-on", "never", "--topics", topic)
    permit(ResourceType.TOPIC, topic, ACLOperation.DESCRIBE_CONFIGS)
    shown = secured.run("plain", carol, *check, "--json")
    assert hidden in shown.json["hidden_topics"]
    assert "that this user may not describe (" in shown.err
    shown = secured.run("plain", plain("alice"), *check, "--json")
    assert shown.json["hidden_topics"] == []
    assert "Not checked" not in shown.err
    partitions = read_table(to, "partitions")
    assert [(row["topic"], row["end_offset"]) for row in partitions] == [(topic, 5)] * 2
    assert min(row["size_bytes"] for row in partitions) > 5000
    committed = {(row["topic"], row["partition"]): row for row in read_table(to, "commits")}
    assert {at: row["committed_offset"] for at, row in committed.items()} == {
        (topic, 0): 3,
        (topic, 1): 4,
    }
    assert {row["group"] for row in committed.values()} == {group}


def test_brokers_of_which_one_has_no_rack(secured: Commands) -> None:
    topic = new_name("partial")
    create = ("topics", "create", topic, "--yes", "--json", "-p", "4", "-r", "2")
    line = secured.error_line("plain", plain("alice"), *create)
    assert "broker 1 without a rack, while others have one" in line
    assert "--ignore-racks" in line
    assert layout(secured.cluster, topic) == {}
    output = secured.run("plain", plain("alice"), *create, "--ignore-racks").json
    replicas = layout(secured.cluster, topic)
    assert replicas == output["topics"][0]["replicas"]
    assert len(replicas) == 4


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_output_of_any_command_has_the_secret(secured: Commands, tmp_path: Path) -> None:
    """Standard output and error, with --debug, and every file: plans, tables, logs of the
    controller and of Spark, its event log and checkpoint, and the report."""
    cluster, secret = secured.cluster, PASSWORD
    where = cluster.bootstrap("scram")
    config = "security.protocol=sasl_ssl\n" + librdkafka("SCRAM-SHA-512")
    config += f"ssl.ca.location={secured.files['ca']}\n"
    topic, group, sent = (new_name(stem) for stem in ("canary", "canaries", "snapshots"))
    create_topic(cluster, sent, [[0]])
    plan, leaders, stream = (str(tmp_path / each) for each in ("plan", "leaders", "stream"))
    collect = ("traffic", "collect", "--once", "--cluster", f"here={where}")
    properties = write_file(secured.folder, "output.properties", config)
    texts: list[str] = []

    def run(*arguments: str, statuses: tuple[int, ...] = (0,)) -> None:
        done = secured.run("scram", config, "--debug", *arguments, status=None)
        assert done.status in statuses, done
        texts.extend((done.out, done.err))

    run("topics", "create", topic, "-p", "2", "-r", "1", "--ignore-racks", "--yes")
    run("topics", "add-partitions", topic, "--partitions", "3", "--ignore-racks", "--yes")
    run("topics", "describe", topic)
    run("placement", "check", "--fail-on", "never")
    run("placement", "suggest", "-p", "2", "-r", "1", "--service", "127.0.0.1:1", statuses=(2,))
    run("placement", "plan", "--topics", topic, "--drain", "1", "--ignore-racks", "-o", plan)
    run("placement", "apply", plan, "--throttle", "1MB", "--yes")
    run("placement", "cancel", plan, "--yes")
    run("placement", "throttle")
    run("leaders", "plan", "--readers", "a=1", "--topics", topic, "-o", leaders)
    run("leaders", "apply", leaders, "--yes")
    with reading(cluster, group, topic):
        run("groups", "explain", group)
        run("groups", "rebalance", group, "--yes", statuses=(0, 2))
        run("lead", group, "--dry-run")
        run(*collect, "--output", str(tmp_path / "snapshots"))
        to = ("--output-topic", sent, "--output-bootstrap-server", where)
        run(*collect, *to, "--output-command-config", properties)
    for arguments in (("topics", "describe"), ("lead", group, "--dry-run")):
        wrong = config.replace(secret, "hunter2")
        done = secured.run("scram", wrong, "--debug", *arguments, status=2)
        assert "Traceback" in done.err
        assert "hunter2" not in done.out + done.err
    texts.append(_controller_output(where, properties, tmp_path))
    events = tmp_path / "events"
    events.mkdir()
    spark = [
        *("--conf", f"spark.eventLog.dir={events.as_uri()}"),
        *("--conf", "spark.eventLog.enabled=true", "--conf", "spark.eventLog.compress=false"),
    ]
    with (tmp_path / "spark.log").open("w") as log:
        command = ["traffic", "stream", sent, stream, "--once", "--bootstrap-server", where]
        command += ["--command-config", properties, *spark, *SHORT_RUN]
        subprocess.run(
            [sys.executable, "-m", "rackward.cli.main", *command],
            stdout=log,
            stderr=subprocess.STDOUT,
            check=True,
            timeout=600,
        )
    page = tmp_path / "page.html"
    texts.append(rackward(where, "traffic", "report", stream, "-o", page).out)
    contents = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {path.suffix for path in contents} >= {".html", ".log", ".parquet", ".json"}
    event_log = b"".join(each for path, each in contents.items() if events in path.parents)
    assert sent.encode() in event_log
    found = [str(path) for path, content in contents.items() if secret.encode() in content]
    assert found == []
    assert secret not in "".join(texts)


def _controller_output(where: str, properties: str, folder: Path) -> str:
    """Run a controller until it is active; return its metrics. Its log is in ``folder``."""
    config = folder / "controller.json"
    config.write_text(
        json.dumps(
            {
                "cluster": {"bootstrap_servers": where, "command_config": properties},
                "service": {"listen": "127.0.0.1:0"},
                "health": {"listen": "127.0.0.1:0"},
            }
        )
    )
    path = folder / "controller.log"
    with path.open("w") as log:
        command = ["--debug", "controller", "--config", str(config)]
        process = subprocess.Popen(
            [sys.executable, "-m", "rackward.cli.main", *command], stdout=log, stderr=log
        )
    try:
        wait_until(lambda: "active controller" in path.read_text(), TEST_TIMEOUT, "it is active")
        (address,) = re.findall(r"health and metrics: (http://\S+)", path.read_text())
        with urllib.request.urlopen(f"{address}/metrics", timeout=TEST_TIMEOUT) as response:
            return str(response.read().decode())
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(TEST_TIMEOUT)
