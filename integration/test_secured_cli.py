"""The tool on a cluster with passwords, certificates and ACLs, and with some racks unsaid."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ScramMechanism, UserScramCredentialUpsertion

from integration.command_line import Done, rackward
from integration.terminal import one_line
from integration.topics import new_name
from rackward.clusters import LocalCluster
from tests.certificates import Authority, make_authority, written

JAAS = "org.apache.kafka.common.security"
MECHANISMS = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
# The cluster's doors for client racks become doors of other protocols: RACK_0, RACK_1, ...
DOORS = ("plain", "scram", "tls", "mutual")


@dataclass(frozen=True)
class Secured:
    """A cluster of two brokers, one without a rack, and what its clients need."""

    cluster: LocalCluster
    folder: Path
    authority: Authority
    files: dict[str, str]

    def run(self, door: str, config: str, *arguments: str) -> Done:
        path = written(self.folder, "client.properties", config)
        where = self.cluster.bootstrap(door)
        return rackward(where, *arguments, "--command-config", path)

    def fault(self, door: str, config: str, *arguments: str) -> str:
        """The one line of an error."""
        path = written(self.folder, "client.properties", config)
        where = self.cluster.bootstrap(door)
        return one_line(rackward(where, *arguments, "--command-config", path, status=2))


def server_properties(folder: Path, authority: Authority) -> dict[str, str]:
    broker = authority.sign("broker.example")
    pem = written(folder, "broker.pem", broker.key_pem() + broker.pem)
    trust = written(folder, "ca.pem", authority.pem)
    protocols = {"CONTROLLER": "PLAINTEXT", "INTERNAL": "PLAINTEXT", "RACK_0": "SASL_PLAINTEXT",
                 "RACK_1": "SASL_SSL", "RACK_2": "SSL", "RACK_3": "SSL"}  # fmt: skip
    found = {
        "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in protocols.items()),
        "listener.name.rack_0.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.rack_0.plain.sasl.jaas.config": f"{JAAS}.plain.PlainLoginModule required "
        'user_alice="alice secret" user_bob="bob";',
        "listener.name.rack_1.sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.rack_3.ssl.client.auth": "required",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:alice;User:CN=client.example",
    }
    for mechanism in MECHANISMS:
        key = f"listener.name.rack_1.{mechanism.lower()}.sasl.jaas.config"
        found[key] = f"{JAAS}.scram.ScramLoginModule required;"
    for number in (1, 2, 3):
        prefix = f"listener.name.rack_{number}.ssl"
        found |= {
            f"{prefix}.keystore.type": "PEM",
            f"{prefix}.keystore.location": pem,
            f"{prefix}.truststore.type": "PEM",
            f"{prefix}.truststore.location": trust,
        }
    return found


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    authority = make_authority()
    client = authority.sign("client.example")
    files = {
        "ca": str(folder / "ca.pem"),
        "certificate": written(folder, "client.crt", client.pem),
        "key": written(folder, "client.key", client.key_pem("key secret")),
        "both": written(folder, "client.pem", client.key_pem("key secret") + client.pem),
        "other": written(folder, "other.pem", make_authority("a stranger").pem),
    }
    properties = server_properties(folder, authority)
    with LocalCluster(["a", None], client_racks=DOORS, server_properties=properties) as cluster:
        admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers.split(","))
        try:
            for mechanism in MECHANISMS.values():
                # One at a time: a request may name a user once.
                new = UserScramCredentialUpsertion("alice", mechanism, "alice secret")
                assert admin.alter_user_scram_credentials([new]) == {"alice": None}
        finally:
            admin.close()
        yield Secured(cluster, folder, authority, files)


def java(mechanism: str, password: str = "alice secret", user: str = "alice") -> str:
    module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    return (
        f"sasl.mechanism={mechanism}\n"
        f"sasl.jaas.config={JAAS}.{module}LoginModule required \\\n"
        f'  username="{user}" password="{password}";\n'
    )


def librdkafka(mechanism: str, password: str = "alice secret") -> str:
    return f"sasl.mechanisms={mechanism}\nsasl.username=alice\nsasl.password={password}\n"


def test_both_ways_to_say_it_lead_through_every_door(secured: Secured) -> None:
    files = secured.files
    java_trust = f"ssl.truststore.type=PEM\nssl.truststore.location={files['ca']}\n"
    ways = [
        ("plain", "security.protocol=SASL_PLAINTEXT\n" + java("PLAIN")),
        ("plain", "security.protocol=sasl_plaintext\n" + librdkafka("PLAIN")),
        ("scram", "security.protocol=SASL_SSL\n" + java_trust + java("SCRAM-SHA-256")),
        ("scram", "security.protocol=sasl_ssl\n" + librdkafka("SCRAM-SHA-512")
         + f"ssl.ca.location={files['ca']}\n"),
        ("tls", f"security.protocol=ssl\nssl.ca.location={files['ca']}\n"),
        ("mutual", "security.protocol=SSL\n" + java_trust + "ssl.keystore.type=PEM\n"
         f"ssl.keystore.location={files['both']}\nssl.key.password=key secret\n"),
        ("mutual", f"security.protocol=ssl\nssl.ca.location={files['ca']}\n"
         f"ssl.certificate.location={files['certificate']}\nssl.key.location={files['key']}\n"
         "ssl.key.password=key secret\n"),
    ]  # fmt: skip
    for door, config in ways:
        told = secured.run(door, config, "topics", "describe", "--json").json
        assert [broker["live"] for broker in told["brokers"]] == [True, True], config
        assert told["not_shown"] == []


def test_wrong_keys_are_a_line_that_says_what_to_change(secured: Secured) -> None:
    trust = f"ssl.ca.location={secured.files['ca']}\n"
    sasl_ssl = "security.protocol=SASL_SSL\n" + trust
    wrong = [
        ("plain", "security.protocol=SASL_PLAINTEXT\n" + java("PLAIN", "hunter2"),
         "does not take this user and password"),
        ("scram", sasl_ssl + librdkafka("SCRAM-SHA-256", "hunter2"),
         "does not take this user and password"),
        ("scram", sasl_ssl + java("SCRAM-SHA-512", "hunter2", "nobody"),
         "does not take this user and password"),
        ("scram", sasl_ssl + java("PLAIN", "hunter2"),
         "set sasl.mechanism to one of SCRAM-SHA-256, SCRAM-SHA-512"),
        ("plain", "", "hangs up on this client (PLAINTEXT): it may expect TLS or SASL"),
        ("plain", "security.protocol=SSL\n" + trust, "does not speak TLS: set security.protocol"),
        ("tls", "", "expects TLS: set security.protocol to SSL or SASL_SSL"),
        ("tls", "security.protocol=SASL_SSL\n" + trust + java("PLAIN", "hunter2"),
         "does not ask who the client is (no SASL on this listener)"),
        ("tls", "security.protocol=SSL\n", "is not trusted"),
        ("tls", f"security.protocol=SSL\nssl.ca.location={secured.files['other']}\n",
         "is not trusted"),
        ("mutual", "security.protocol=SSL\n" + trust, "client certificate"),
    ]  # fmt: skip
    for door, config, told in wrong:
        line = secured.fault(door, config, "topics", "describe")
        assert told in line, config
        assert "hunter2" not in line


def test_what_a_user_may_not_is_named(secured: Secured) -> None:
    bob = "security.protocol=SASL_PLAINTEXT\n" + java("PLAIN", "bob", "bob")
    create = ("topics", "create", new_name("bob"), "--yes", "--ignore-racks")
    told = secured.fault("plain", bob, *create, "-p", "1", "-r", "1")
    assert "this user may not; allow it Create on the cluster, or on the topic" in told
    shown = secured.run("plain", bob, "topics", "describe", "--json").json
    assert shown["topics"] == []
    assert "allow it Describe on the cluster" in shown["not_shown"][0]


def test_racks_that_some_brokers_do_not_say(secured: Secured) -> None:
    alice = "security.protocol=SASL_PLAINTEXT\n" + java("PLAIN")
    topic = new_name("partial")
    create = ("topics", "create", topic, "--yes", "--json", "-p", "4", "-r", "2")
    line = secured.fault("plain", alice, *create)
    assert "broker 1 without a rack, while others have one" in line
    assert "--ignore-racks" in line
    assert secured.cluster.view([topic]).replicas == {}
    told = secured.run("plain", alice, *create, "--ignore-racks").json
    found = secured.cluster.view([topic]).replicas
    assert {str(p.partition): list(row) for p, row in found.items()} == told["topics"][0][
        "replicas"
    ]
    assert len(found) == 4
