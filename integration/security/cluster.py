"""A cluster with TLS, SASL and ACLs, of processes or of containers, and its users.

Each mechanism has a listener for clients. Brokers and the tests themselves use listeners without
authentication, as a superuser; every other user has the rights that a test grants, and no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ResourcePattern,
    ResourceType,
)

from integration.security.matrix import CLUSTER, GROUPS, MECHANISMS, Right
from integration.support.secured import (
    Listener,
    authorizer_properties,
    client_files,
    client_properties,
    create_scram_user,
    secured_properties,
)
from integration.support.topics import with_admin
from rackward.testing import Cluster, DockerCluster, LocalCluster
from tests.support.security import (
    TokenServer,
    make_authority,
    run_token_server,
)

PASSWORD, KEY_PASSWORD = "canary-wonderland", "canary-cheshire"
"""Secrets: no output may contain them."""

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
        where = {"bootstrap.servers": self.cluster.bootstrap(mechanism)}
        return where | client_properties(
            protocol, name, self.files, KEY_PASSWORD, self.token_server.url, (user, PASSWORD)
        )

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


@contextmanager
def run_secured(
    cluster_type: type[LocalCluster] | type[DockerCluster], folder: Path, users: Iterable[str]
) -> Iterator[Secured]:
    """Run a cluster of two brokers, in racks a and b; ``users`` exist with PLAIN."""
    authority = make_authority()
    files = client_files(folder, authority, KEY_PASSWORD)
    passwords = dict.fromkeys(["alice", *users], PASSWORD)
    listeners = [
        Listener(protocol, [mechanism] if mechanism else (), client_certificate=mechanism is None)
        for mechanism, protocol in MECHANISMS.values()
    ]
    properties = secured_properties(authority, listeners, passwords) | authorizer_properties()
    with (
        cluster_type(
            ["a", "b"], client_racks=tuple(MECHANISMS), server_properties=properties
        ) as cluster,
        run_token_server(authority.sign("localhost")) as token_server,
    ):
        create_scram_user(cluster, "alice", PASSWORD, ("SCRAM-SHA-256", "SCRAM-SHA-512"))
        cluster.await_metadata()
        yield Secured(cluster, token_server, files)
