"""A cluster with TLS, SASL and ACLs, of processes or of containers, and its users.

Each mechanism has a listener for clients. Brokers and the tests themselves use listeners without
authentication, as a superuser; every other user has the rights that a test grants, and no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ResourcePattern,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from integration.security.matrix import CLUSTER, GROUPS, MECHANISMS, Right
from integration.support.topics import with_admin
from rackward.clusters import Cluster, DockerCluster, LocalCluster
from rackward.clusters.docker import EXTERNAL
from tests.support.security import (
    CLIENT_ID,
    SECRET,
    Authority,
    TokenServer,
    make_authority,
    run_token_server,
    write_file,
)

PASSWORD, KEY_PASSWORD = "canary-wonderland", "canary-cheshire"
"""Secrets: no output may contain them."""

JAAS = "org.apache.kafka.common.security"
LISTENERS = {name: f"RACK_{number}" for number, name in enumerate(MECHANISMS)}
"""Listener of each mechanism: the cluster has one for the clients of each of these "racks"."""

PRINCIPALS = dict.fromkeys(MECHANISMS, "User:alice") | {"TLS": "User:CN=client.example"}
"""The user of each mechanism; that of OAUTHBEARER is the subject of the tokens."""

OPERATIONS = {
    "Alter": ACLOperation.ALTER,
    "AlterConfigs": ACLOperation.ALTER_CONFIGS,
    "Create": ACLOperation.CREATE,
    "Describe": ACLOperation.DESCRIBE,
    "DescribeConfigs": ACLOperation.DESCRIBE_CONFIGS,
    "Read": ACLOperation.READ,
    "Write": ACLOperation.WRITE,
}


@dataclass(frozen=True)
class Secured:
    """The cluster, its token endpoint, and the files of its clients."""

    cluster: Cluster
    token_server: TokenServer
    files: Mapping[str, str]

    def properties(self, mechanism: str, user: str = "alice") -> dict[str, Any]:
        """Return librdkafka's properties of a client that uses the mechanism.

        Only PLAIN has other users than ``alice``.
        """
        name, protocol = MECHANISMS[mechanism]
        properties: dict[str, Any] = {
            "bootstrap.servers": self.cluster.bootstrap(mechanism),
            "security.protocol": protocol,
        }
        if protocol.endswith("SSL"):
            properties["ssl.ca.location"] = self.files["ca"]
        if name is None:
            return properties | {
                "ssl.certificate.location": self.files["certificate"],
                "ssl.key.location": self.files["key"],
                "ssl.key.password": KEY_PASSWORD,
            }
        properties["sasl.mechanisms"] = name
        if name == "OAUTHBEARER":
            return properties | {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.token.endpoint.url": self.token_server.url,
                "sasl.oauthbearer.client.id": CLIENT_ID,
                "sasl.oauthbearer.client.secret": SECRET,
                "https.ca.location": self.files["ca"],
            }
        return properties | {"sasl.username": user, "sasl.password": PASSWORD}

    def grant(self, grants: Iterable[tuple[str, Iterable[Right], Mapping[str, str]]]) -> None:
        """Allow each user its rights, and no others; the names are those of resources."""
        acls = {
            (principal, right.operation, pattern.resource_type, pattern.resource_name): ACL(
                principal, "*", OPERATIONS[right.operation], ACLPermissionType.ALLOW, pattern
            )
            for principal, rights, names in grants
            for right in rights
            for pattern in [_pattern(right, names)]
        }
        with_admin(self.cluster, lambda admin: admin.create_acls(list(acls.values())))
        self.cluster.await_metadata()


def _pattern(right: Right, names: Mapping[str, str]) -> ResourcePattern:
    if right.on == CLUSTER:
        return ResourcePattern(ResourceType.CLUSTER, "kafka-cluster")
    kind = ResourceType.GROUP if right.on in GROUPS else ResourceType.TOPIC
    return ResourcePattern(kind, names.get(right.on, right.on))


def _server_properties(authority: Authority, users: Iterable[str]) -> dict[str, str]:
    broker = authority.sign("broker.example")
    # Certificates and keys as values, since containers see no files of this machine.
    stores = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": _one_line(broker.pem),
        "ssl.keystore.key": _one_line(broker.key_pem()),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": _one_line(authority.pem),
    }
    protocols = dict.fromkeys(("CONTROLLER", "INTERNAL", EXTERNAL), "PLAINTEXT")
    protocols |= {LISTENERS[name]: protocol for name, (_, protocol) in MECHANISMS.items()}
    properties = {
        "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in protocols.items()),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    passwords = " ".join(f'user_{user}="{PASSWORD}"' for user in users)
    logins = {
        "PLAIN": f"plain.PlainLoginModule required {passwords};",
        "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule required"
        ' unsecuredLoginStringClaim_sub="broker";',
    }
    for listener, (mechanism, protocol) in zip(
        LISTENERS.values(), MECHANISMS.values(), strict=True
    ):
        prefix = f"listener.name.{listener.lower()}"
        if protocol.endswith("SSL"):
            properties |= {f"{prefix}.{key}": value for key, value in stores.items()}
        if mechanism is None:
            properties[f"{prefix}.ssl.client.auth"] = "required"
        else:
            login = logins.get(mechanism, "scram.ScramLoginModule required;")
            properties[f"{prefix}.sasl.enabled.mechanisms"] = mechanism
            properties[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = f"{JAAS}.{login}"
    return properties


def _one_line(pem: str) -> str:
    return " ".join(pem.split("\n"))


@contextmanager
def run_secured(
    cluster_type: type[LocalCluster] | type[DockerCluster], folder: Path, users: Iterable[str]
) -> Iterator[Secured]:
    """Run a cluster of two brokers, in racks a and b; ``users`` exist with PLAIN."""
    authority = make_authority()
    client = authority.sign("client.example")
    files = {
        "ca": write_file(folder, "ca.pem", authority.pem),
        "certificate": write_file(folder, "client.crt", client.pem),
        "key": write_file(folder, "client.key", client.key_pem(KEY_PASSWORD)),
    }
    properties = _server_properties(authority, ["alice", *users])
    with (
        cluster_type(
            ["a", "b"], client_racks=tuple(MECHANISMS), server_properties=properties
        ) as cluster,
        run_token_server(authority.sign("localhost")) as token_server,
    ):
        admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers.split(","))
        with closing(admin):
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
                # One at a time: a request may contain a user only once.
                new = UserScramCredentialUpsertion("alice", mechanism, PASSWORD)
                assert admin.alter_user_scram_credentials([new]) == {"alice": None}
        cluster.await_metadata()
        yield Secured(cluster, token_server, files)
