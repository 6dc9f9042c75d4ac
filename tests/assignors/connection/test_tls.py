"""Certificates and keys in every form that people keep them: real handshakes tell."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from assignors.connection import ConnectionPropertyError, kafka_python_settings, librdkafka_settings
from tests.support.certificates import Authority, Signed, make_authority, trust_store, written
from tests.support.waiting import PATIENCE

PASSWORD = "hunter2"


class World:
    """An authority, a broker and a client that it has signed, and all of it in files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority: Authority = make_authority()
        self.stranger: Authority = make_authority("a stranger")
        self.broker: Signed = self.authority.sign("broker.example")
        self.client: Signed = self.authority.sign("client.example")

    def file(self, name: str, content: str | bytes) -> str:
        return written(self.folder, name, content)

    def server(self) -> ssl.SSLContext:
        """A broker's side, which asks clients for their certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        chain = self.file("broker.pem", self.broker.pem + self.broker.key_pem())
        context.load_cert_chain(chain)
        context.load_verify_locations(cadata=self.authority.pem)
        context.verify_mode = ssl.CERT_REQUIRED
        return context


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("certificates"))


def handshake(world: World, properties: Mapping[str, object], host: str = "127.0.0.1") -> str:
    """The name on the client's certificate, as a server sees it."""
    context = kafka_python_settings({"security.protocol": "SSL", **properties})["ssl_context"]
    assert isinstance(context, ssl.SSLContext)
    ours, theirs = socket.socketpair()
    seen: list[str] = []

    def serve() -> None:
        try:
            with world.server().wrap_socket(theirs, server_side=True) as server:
                subject = dict(pair[0] for pair in server.getpeercert()["subject"])  # type: ignore
                seen.append(subject["commonName"])
                server.sendall(b"!")
        except OSError:
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        ours.settimeout(PATIENCE)
        with context.wrap_socket(ours, server_hostname=host) as client:
            client.recv(1)
    finally:
        ours.close()
        thread.join(PATIENCE)
    return seen[0]


def pem_files(world: World) -> dict[str, object]:
    return {
        "ssl.ca.location": world.file("ca.pem", world.authority.pem),
        "ssl.certificate.location": world.file("client.crt", world.client.pem),
        "ssl.key.location": world.file("client.key", world.client.key_pem(PASSWORD)),
        "ssl.key.password": PASSWORD,
    }


def pem_inline(world: World) -> dict[str, object]:
    return {
        "ssl.ca.pem": world.authority.pem,
        "ssl.certificate.pem": world.client.pem,
        "ssl.key.pem": world.client.key_pem(),
    }


def java_pem_files(world: World) -> dict[str, object]:
    both = world.client.key_pem(PASSWORD) + world.client.pem
    return {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": world.file("trust.pem", world.authority.pem),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": world.file("both.pem", both),
        "ssl.key.password": PASSWORD,
    }


def java_pem_inline(world: World) -> dict[str, object]:
    return {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": world.stranger.pem + world.authority.pem,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": world.client.pem + world.authority.pem,
        "ssl.keystore.key": world.client.key_pem(PASSWORD),
        "ssl.key.password": PASSWORD,
    }


def pkcs12(world: World) -> dict[str, object]:
    # Java calls its own and PKCS#12 stores JKS alike.
    return {
        "ssl.truststore.type": "jks",
        "ssl.truststore.location": world.file(
            "trust.p12", trust_store(PASSWORD, world.stranger, world.authority)
        ),
        "ssl.truststore.password": PASSWORD,
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": world.file(
            "client.p12", world.client.pkcs12(PASSWORD, world.authority)
        ),
        "ssl.keystore.password": PASSWORD,
    }


FORMS = [pem_files, pem_inline, java_pem_files, java_pem_inline, pkcs12]


@pytest.mark.parametrize("form", FORMS)
def test_both_sides_know_each_other(world: World, form: object) -> None:
    assert callable(form)
    assert handshake(world, form(world)) == "client.example"


@pytest.mark.parametrize("form", FORMS)
def test_librdkafka_takes_what_comes_out(world: World, form: object) -> None:
    assert callable(form)
    settings = librdkafka_settings({"security.protocol": "SSL", **form(world)})
    # In a process of its own: librdkafka logs to the terminal that the broker is away.
    code = (
        "import sys, confluent_kafka\n"
        "confluent_kafka.Consumer({**eval(sys.stdin.read()), 'group.id': 'g'}).close()\n"
    )
    told = {name: str(value) for name, value in settings.items()}
    answer = subprocess.run(
        [sys.executable, "-c", code],
        input=str(told),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert PASSWORD not in repr(settings)
    assert "PRIVATE KEY" not in repr(settings)


def test_the_broker_has_to_be_who_it_says(world: World) -> None:
    properties = pem_files(world)
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        handshake(world, properties, "other.example")
    lax = {**properties, "ssl.endpoint.identification.algorithm": ""}
    assert handshake(world, lax, "other.example") == "client.example"
    trusting_others = {**properties, "ssl.ca.location": world.file("x.pem", world.stranger.pem)}
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
        handshake(world, trusting_others)
    blind = {**trusting_others, "enable.ssl.certificate.verification": "false"}
    assert handshake(world, blind) == "client.example"


def test_no_key_stays_in_a_file(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert handshake(world, pem_inline(world)) == "client.example"
    assert handshake(world, pkcs12(world)) == "client.example"
    assert list(tmp_path.iterdir()) == []


def test_a_home_folder_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.file("home.pem", world.authority.pem)
    monkeypatch.setenv("HOME", str(world.folder))
    properties = {**pem_files(world), "ssl.ca.location": "~/home.pem"}
    assert handshake(world, properties) == "client.example"
    told = librdkafka_settings({"security.protocol": "SSL", **properties})
    assert told["ssl.ca.location"] == str(world.folder / "home.pem")


def test_what_cannot_be_used_is_named_and_secrets_are_not(world: World) -> None:
    jks = world.file("trust.jks", b"\xfe\xed\xfe\xed\x00\x00")
    nonsense = world.file("nonsense", "nothing")
    hollow = world.file("hollow.pem", "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----")
    other_key = world.file("other.key", world.broker.key_pem())
    no_key = world.file("no-key.p12", trust_store(PASSWORD, world.authority))
    files, store = pem_files(world), pkcs12(world)
    cases: list[tuple[dict[str, object], str]] = [
        ({"ssl.truststore.location": jks}, f"keytool -importkeystore -srckeystore {jks} -dest"),
        ({"ssl.truststore.location": nonsense}, "is neither PEM nor PKCS#12"),
        ({"ssl.ca.location": "/absent/ca.pem"}, "'/absent/ca.pem' cannot be read: No such file"),
        ({"ssl.ca.location": hollow}, "cannot be used"),
        ({"ssl.ca.pem": "nothing"}, "ssl.ca.pem: cannot be used"),
        ({"ssl.crl.location": "/absent/crl"}, "ssl.crl.location: the file '/absent/crl' cannot"),
        ({**files, "ssl.key.password": None}, "ssl.key.password: the key of ssl.key.location is"),
        ({**files, "ssl.key.password": "hunter3"}, "ssl.key.location:"),
        ({**files, "ssl.key.location": other_key}, "key values mismatch"),
        ({**files, "ssl.key.location": None}, "it is a certificate without a key: give both"),
        ({**files, "ssl.certificate.location": None}, "it is a key without a certificate"),
        ({**files, "ssl.key.location": store["ssl.keystore.location"]}, "is not PEM: name a PEM"),
        ({**store, "ssl.keystore.password": "hunter3"}, "ssl.keystore.location: "),
        ({**store, "ssl.truststore.password": None}, "its password is missing or wrong"),
        ({**store, "ssl.keystore.location": no_key}, "holds no private key with a certificate"),
    ]
    for properties, told in cases:
        with pytest.raises(ConnectionPropertyError) as error:
            kafka_python_settings({"security.protocol": "SSL", **properties})
        assert told in str(error.value), properties
        assert "\n" not in str(error.value)
        assert "hunter" not in str(error.value)
