"""A cluster with TLS, SASL and ACLs, of processes or of containers, and its users.

Each mechanism has a listener for clients. Brokers and the tests themselves use listeners without
authentication, as a superuser; every other user has the rights that a test grants, and no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ResourcePattern,
    ResourceType,
)

from integration.security.matrix import CLUSTER, GROUPS, MECHANISMS, Right
from integration.support.secured import Listener, Secured, authorizer_properties, run_secured
from integration.support.topics import with_admin
from rackward.testing import Cluster, DockerCluster, LocalCluster

PRINCIPALS = dict.fromkeys(MECHANISMS, "User:alice") | {"TLS": "User:CN=client.example"}
"""The user of each mechanism; that of OAUTHBEARER is the subject of the tokens."""

OPERATIONS = {each.name.title().replace("_", ""): each for each in ACLOperation}
"""By their names in Kafka's documentation, such as DescribeConfigs."""


def grant(
    cluster: Cluster, grants: Iterable[tuple[str, Iterable[Right], Mapping[str, str]]]
) -> None:
    """Allow each user its rights, and no others; the names are those of resources."""
    acls = {
        (principal, right.operation, pattern.resource_type, pattern.resource_name): ACL(
            principal, "*", OPERATIONS[right.operation], ACLPermissionType.ALLOW, pattern
        )
        for principal, rights, names in grants
        for right in rights
        for pattern in [_pattern(right, names)]
    }
    with_admin(cluster, lambda admin: admin.create_acls(list(acls.values())))
    cluster.await_metadata()


def _pattern(right: Right, names: Mapping[str, str]) -> ResourcePattern:
    if right.on == CLUSTER:
        return ResourcePattern(ResourceType.CLUSTER, "kafka-cluster")
    kind = ResourceType.GROUP if right.on in GROUPS else ResourceType.TOPIC
    return ResourcePattern(kind, names.get(right.on, right.on))


@contextmanager
def run_with_acls(
    cluster_type: type[LocalCluster] | type[DockerCluster], folder: Path, users: Iterable[str]
) -> Iterator[Secured]:
    """Run a cluster of two brokers, in racks a and b; ``users`` exist with PLAIN."""
    listeners = {
        name: Listener(protocol, [mechanism] if mechanism else (), mechanism is None)
        for name, (mechanism, protocol) in MECHANISMS.items()
    }
    with run_secured(
        listeners,
        folder,
        racks=("a", "b"),
        cluster_type=cluster_type,
        users=users,
        server_properties=authorizer_properties(),
    ) as secured:
        secured.cluster.await_metadata()
        yield secured
