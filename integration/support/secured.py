"""Clusters whose listeners use TLS and SASL, for tests of clients, commands and rights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.admin import ScramMechanism, UserScramCredentialUpsertion

from integration.support.topics import with_admin
from rackward.testing import Cluster
from rackward.testing.docker import EXTERNAL
from tests.support.security import CLIENT_ID, SECRET, Authority, write_file

JAAS = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class Listener:
    """A listener for clients: its protocol, and what it requires of them."""

    protocol: str
    mechanisms: Sequence[str] = ()
    client_certificate: bool = False


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


def client_files(folder: Path, authority: Authority, key_password: str) -> dict[str, str]:
    """Write the files of a client: ``ca``, ``certificate``, ``key``, and the latter as ``both``."""
    client = authority.sign("client.example")
    key = client.key_pem(key_password)
    return {
        "ca": write_file(folder, "ca.pem", authority.pem),
        "certificate": write_file(folder, "client.crt", client.pem),
        "key": write_file(folder, "client.key", key),
        "both": write_file(folder, "client.pem", key + client.pem),
    }


def client_properties(
    protocol: str,
    mechanism: str | None,
    files: Mapping[str, str],
    key_password: str,
    token_url: str,
    user: tuple[str, str],
    client_secret: str = SECRET,
) -> dict[str, str]:
    """Return librdkafka's properties of a client; without a ``mechanism`` it has a certificate.

    ``files`` are those of `client_files`; ``user`` is a name with its password.
    """
    properties = {"security.protocol": protocol}
    if protocol.endswith("SSL"):
        properties["ssl.ca.location"] = files["ca"]
    if mechanism is None:
        return properties | {
            "ssl.certificate.location": files["certificate"],
            "ssl.key.location": files["key"],
            "ssl.key.password": key_password,
        }
    properties["sasl.mechanisms"] = mechanism
    if mechanism == "OAUTHBEARER":
        return properties | {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": token_url,
            "sasl.oauthbearer.client.id": CLIENT_ID,
            "sasl.oauthbearer.client.secret": client_secret,
            "https.ca.location": files["ca"],
        }
    return properties | {"sasl.username": user[0], "sasl.password": user[1]}


def create_scram_user(
    cluster: Cluster, user: str, password: str, mechanisms: Iterable[str]
) -> None:
    """Create a user with a password for each of the mechanisms."""
    for mechanism in mechanisms:
        # One at a time: a request may contain a user only once.
        scram = ScramMechanism[mechanism.replace("-", "_")]
        new = [UserScramCredentialUpsertion(user, scram, password)]
        changed = with_admin(
            cluster, partial(KafkaAdminClient.alter_user_scram_credentials, alterations=new)
        )
        assert changed == {user: None}


def _one_line(pem: str) -> str:
    return " ".join(pem.split("\n"))
