"""Clusters whose listeners use TLS and SASL, for tests of clients, commands and rights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import ScramMechanism, UserScramCredentialUpsertion

from integration.support.topics import with_admin
from rackward.testing import Cluster, DockerCluster, LocalCluster
from rackward.testing.docker import EXTERNAL
from tests.support.security import (
    CLIENT_ID,
    SECRET,
    Authority,
    TokenServer,
    make_authority,
    run_token_server,
    write_file,
)

JAAS = "org.apache.kafka.common.security"

PASSWORD, KEY_PASSWORD = "canary wonderland", "canary cheshire"
"""Secrets of clients, with blanks: no output may contain them."""


@dataclass(frozen=True)
class Listener:
    """A listener for clients: its protocol, and what it requires of them."""

    protocol: str
    mechanisms: Sequence[str] = ()
    client_certificate: bool = False


LISTENERS = {
    "tls": Listener("SSL", client_certificate=True),
    "plain": Listener("SASL_SSL", ["PLAIN"]),
    "scram": Listener("SASL_SSL", ["SCRAM-SHA-512"]),
    "oauth": Listener("SASL_PLAINTEXT", ["OAUTHBEARER"]),
    "oauth-tls": Listener("SASL_SSL", ["OAUTHBEARER"]),
}
"""Those of the cluster that the tests of clients share."""


def secured_properties(
    authority: Authority, listeners: Sequence[Listener], passwords: Mapping[str, str]
) -> dict[str, str]:
    """Return the properties of brokers whose listeners RACK_0, RACK_1, ... are these.

    The other listeners have no authentication. ``passwords`` are those of PLAIN, by user.
    """
    broker = authority.sign("broker.example")
    # Certificates and keys as values, since containers see no files of this machine.
    stores = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": _one_line(broker.pem),
        "ssl.keystore.key": _one_line(broker.key_pem()),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": _one_line(authority.pem),
    }
    users = " ".join(f'user_{user}="{password}"' for user, password in passwords.items())
    logins = {
        "PLAIN": f"plain.PlainLoginModule required {users};",
        "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule required"
        ' unsecuredLoginStringClaim_sub="broker";',
    }
    protocols = dict.fromkeys(("CONTROLLER", "INTERNAL", EXTERNAL), "PLAINTEXT")
    properties: dict[str, str] = {}
    for number, listener in enumerate(listeners):
        protocols[f"RACK_{number}"] = listener.protocol
        prefix = f"listener.name.rack_{number}"
        if listener.protocol.endswith("SSL"):
            properties |= {f"{prefix}.{key}": value for key, value in stores.items()}
        if listener.client_certificate:
            properties[f"{prefix}.ssl.client.auth"] = "required"
        if listener.mechanisms:
            properties[f"{prefix}.sasl.enabled.mechanisms"] = ",".join(listener.mechanisms)
        for mechanism in listener.mechanisms:
            login = logins.get(mechanism, "scram.ScramLoginModule required;")
            properties[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = f"{JAAS}.{login}"
    mapping = ",".join(f"{name}:{protocol}" for name, protocol in protocols.items())
    return properties | {"listener.security.protocol.map": mapping}


def authorizer_properties(*super_users: str) -> dict[str, str]:
    """Return the properties of brokers with ACLs; clients without authentication are superusers."""
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": ";".join(("User:ANONYMOUS", *super_users)),
    }


def set_scram_password(cluster: Cluster, user: str, password: str, mechanism: str) -> None:
    """Set the password of a user for a mechanism; create the user if it does not exist."""
    scram = ScramMechanism[mechanism.replace("-", "_")]
    new = [UserScramCredentialUpsertion(user, scram, password)]
    change = partial(KafkaAdminClient.alter_user_scram_credentials, alterations=new)
    assert with_admin(cluster, change) == {user: None}


@dataclass(frozen=True)
class Secured:
    """A cluster with these listeners, its authority and token endpoint, and a client's ``files``.

    ``ca``, ``certificate``, ``key``, and the latter two as ``both``.
    """

    cluster: Cluster
    listeners: Mapping[str, Listener]
    authority: Authority
    token_server: TokenServer
    files: Mapping[str, str]

    def properties(
        self,
        listener: str,
        user: str = "alice",
        password: str = PASSWORD,
        client_secret: str = SECRET,
    ) -> dict[str, Any]:
        """Return librdkafka's properties of a client of the listener.

        Without a mechanism it has a certificate. Only PLAIN has other users than ``alice``.
        """
        of_listener = self.listeners[listener]
        properties = {"security.protocol": of_listener.protocol}
        if of_listener.protocol.endswith("SSL"):
            properties["ssl.ca.location"] = self.files["ca"]
        if not of_listener.mechanisms:
            return properties | {
                "ssl.certificate.location": self.files["certificate"],
                "ssl.key.location": self.files["key"],
                "ssl.key.password": KEY_PASSWORD,
            }
        (properties["sasl.mechanisms"],) = of_listener.mechanisms
        if properties["sasl.mechanisms"] == "OAUTHBEARER":
            return properties | {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.token.endpoint.url": self.token_server.url,
                "sasl.oauthbearer.client.id": CLIENT_ID,
                "sasl.oauthbearer.client.secret": client_secret,
                "https.ca.location": self.files["ca"],
            }
        return properties | {"sasl.username": user, "sasl.password": password}


@contextmanager
def run_secured(
    listeners: Mapping[str, Listener],
    folder: Path,
    *,
    racks: Sequence[str | None] = ("a",),
    cluster_type: type[LocalCluster] | type[DockerCluster] = LocalCluster,
    users: Iterable[str] = (),
    server_properties: Mapping[str, str] | None = None,
) -> Iterator[Secured]:
    """Run a cluster with these listeners, whose names are those of client racks.

    ``users`` exist with PLAIN, as ``alice`` does. Files of the client are written to ``folder``.
    """
    authority = make_authority()
    passwords = dict.fromkeys(["alice", *users], PASSWORD)
    properties = secured_properties(authority, list(listeners.values()), passwords)
    with (
        cluster_type(
            racks,
            client_racks=tuple(listeners),
            server_properties={**properties, **(server_properties or {})},
        ) as cluster,
        run_token_server(authority.sign("localhost")) as token_server,
    ):
        for mechanism in [name for each in listeners.values() for name in each.mechanisms]:
            if mechanism.startswith("SCRAM"):
                set_scram_password(cluster, "alice", PASSWORD, mechanism)
        client = authority.sign("client.example")
        key = client.key_pem(KEY_PASSWORD)
        files = {
            "ca": write_file(folder, "ca.pem", authority.pem),
            "certificate": write_file(folder, "client.crt", client.pem),
            "key": write_file(folder, "client.key", key),
            "both": write_file(folder, "client.pem", key + client.pem),
        }
        yield Secured(cluster, listeners, authority, token_server, files)


def _one_line(pem: str) -> str:
    return " ".join(pem.split("\n"))
