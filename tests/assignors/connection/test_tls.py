"""Certificates and keys in every supported form, verified by real handshakes."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from assignors.connection import ConnectionPropertyError, kafka_python_settings, librdkafka_settings
from tests.support.security import Authority, Signed, make_authority, trust_store, write_file
from tests.support.waiting import TEST_TIMEOUT

PASSWORD = "hunter2"


class Pki:
    """An authority, the broker and the client that it has signed, and a second authority."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority: Authority = make_authority()
        self.other_authority: Authority = make_authority("other authority")
        self.broker: Signed = self.authority.sign("broker.example")
        self.client: Signed = self.authority.sign("client.example")

    def file(self, name: str, content: str | bytes) -> str:
        return write_file(self.folder, name, content)

    def server(self) -> ssl.SSLContext:
        """Return a broker's context, which requires client certificates."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        chain = self.file("broker.pem", self.broker.pem + self.broker.key_pem())
        context.load_cert_chain(chain)
        context.load_verify_locations(cadata=self.authority.pem)
        context.verify_mode = ssl.CERT_REQUIRED
        return context


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("certificates"))


def handshake(pki: Pki, properties: Mapping[str, object], host: str = "127.0.0.1") -> str:
    """Connect, and return the common name of the client's certificate as the server sees it."""
    context = kafka_python_settings({"security.protocol": "SSL", **properties})["ssl_context"]
    assert isinstance(context, ssl.SSLContext)
    client_socket, server_socket = socket.socketpair()
    names: list[str] = []

    def serve() -> None:
        try:
            with pki.server().wrap_socket(server_socket, server_side=True) as server:
                subject = dict(pair[0] for pair in server.getpeercert()["subject"])  # type: ignore
                names.append(subject["commonName"])
                server.sendall(b"!")
        except OSError:
            server_socket.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        client_socket.settimeout(TEST_TIMEOUT)
        with context.wrap_socket(client_socket, server_hostname=host) as client:
            client.recv(1)
    finally:
        client_socket.close()
        thread.join(TEST_TIMEOUT)
    return names[0]


def pem_files(pki: Pki) -> dict[str, object]:
    return {
        "ssl.ca.location": pki.file("ca.pem", pki.authority.pem),
        "ssl.certificate.location": pki.file("client.crt", pki.client.pem),
        "ssl.key.location": pki.file("client.key", pki.client.key_pem(PASSWORD)),
        "ssl.key.password": PASSWORD,
    }


def pem_inline(pki: Pki) -> dict[str, object]:
    return {
        "ssl.ca.pem": pki.authority.pem,
        "ssl.certificate.pem": pki.client.pem,
        "ssl.key.pem": pki.client.key_pem(),
    }


def java_pem_files(pki: Pki) -> dict[str, object]:
    both = pki.client.key_pem(PASSWORD) + pki.client.pem
    return {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": pki.file("trust.pem", pki.authority.pem),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": pki.file("both.pem", both),
        "ssl.key.password": PASSWORD,
    }


def java_pem_inline(pki: Pki) -> dict[str, object]:
    return {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": pki.other_authority.pem + pki.authority.pem,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": pki.client.pem + pki.authority.pem,
        "ssl.keystore.key": pki.client.key_pem(PASSWORD),
        "ssl.key.password": PASSWORD,
    }


def pkcs12(pki: Pki) -> dict[str, object]:
    # Java accepts PKCS#12 stores under the type JKS.
    return {
        "ssl.truststore.type": "jks",
        "ssl.truststore.location": pki.file(
            "trust.p12", trust_store(PASSWORD, pki.other_authority, pki.authority)
        ),
        "ssl.truststore.password": PASSWORD,
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": pki.file("client.p12", pki.client.pkcs12(PASSWORD, pki.authority)),
        "ssl.keystore.password": PASSWORD,
    }


Form = Callable[[Pki], dict[str, object]]
FORMS: list[Form] = [pem_files, pem_inline, java_pem_files, java_pem_inline, pkcs12]


@pytest.mark.parametrize("form", FORMS)
def test_both_sides_authenticate(pki: Pki, form: Form) -> None:
    assert handshake(pki, form(pki)) == "client.example"


@pytest.mark.parametrize("form", FORMS)
def test_librdkafka_accepts_the_settings(pki: Pki, form: Form) -> None:
    settings = librdkafka_settings({"security.protocol": "SSL", **form(pki)})
    # In a separate process, because librdkafka logs to stderr that the broker is unreachable.
    code = (
        "import sys, confluent_kafka\n"
        "confluent_kafka.Consumer({**eval(sys.stdin.read()), 'group.id': 'g'}).close()\n"
    )
    values = {name: str(value) for name, value in settings.items()}
    process = subprocess.run(
        [sys.executable, "-c", code],
        input=str(values),
        capture_output=True,
        text=True,
        timeout=TEST_TIMEOUT,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert PASSWORD not in repr(settings)
    assert "PRIVATE KEY" not in repr(settings)


def test_the_brokers_certificate_is_verified(pki: Pki) -> None:
    properties = pem_files(pki)
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        handshake(pki, properties, "other.example")
    any_host = {**properties, "ssl.endpoint.identification.algorithm": ""}
    assert handshake(pki, any_host, "other.example") == "client.example"
    other_trust = {**properties, "ssl.ca.location": pki.file("x.pem", pki.other_authority.pem)}
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
        handshake(pki, other_trust)
    unverified = {**other_trust, "enable.ssl.certificate.verification": "false"}
    assert handshake(pki, unverified) == "client.example"


def test_no_temporary_file_with_a_key_remains(
    pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert handshake(pki, pem_inline(pki)) == "client.example"
    assert handshake(pki, pkcs12(pki)) == "client.example"
    assert list(tmp_path.iterdir()) == []


def test_a_tilde_is_expanded(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    pki.file("home.pem", pki.authority.pem)
    monkeypatch.setenv("HOME", str(pki.folder))
    properties = {**pem_files(pki), "ssl.ca.location": "~/home.pem"}
    assert handshake(pki, properties) == "client.example"
    settings = librdkafka_settings({"security.protocol": "SSL", **properties})
    assert settings["ssl.ca.location"] == str(pki.folder / "home.pem")


def test_unusable_files_are_reported_without_secrets(pki: Pki) -> None:
    jks = pki.file("trust.jks", b"\xfe\xed\xfe\xed\x00\x00")
    garbage = pki.file("garbage", "nothing")
    empty = pki.file("empty.pem", "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----")
    other_key = pki.file("other.key", pki.broker.key_pem())
    no_key = pki.file("no-key.p12", trust_store(PASSWORD, pki.authority))
    files, store = pem_files(pki), pkcs12(pki)
    cases: list[tuple[dict[str, object], str]] = [
        ({"ssl.truststore.location": jks}, f"keytool -importkeystore -srckeystore {jks} -dest"),
        ({"ssl.truststore.location": garbage}, "is neither PEM nor PKCS#12"),
        ({"ssl.ca.location": "/absent/ca.pem"}, "'/absent/ca.pem' cannot be read: No such file"),
        ({"ssl.ca.location": empty}, "cannot be used"),
        ({"ssl.ca.pem": "nothing"}, "ssl.ca.pem: cannot be used"),
        ({"ssl.crl.location": "/absent/crl"}, "ssl.crl.location: the file '/absent/crl' cannot"),
        ({**files, "ssl.key.password": None}, "ssl.key.password: the key of ssl.key.location is"),
        ({**files, "ssl.key.password": "hunter3"}, "ssl.key.location:"),
        ({**files, "ssl.key.location": other_key}, "key values mismatch"),
        ({**files, "ssl.key.location": None}, "it is a certificate without a key: give both"),
        ({**files, "ssl.certificate.location": None}, "it is a key without a certificate"),
        ({**files, "ssl.key.location": store["ssl.keystore.location"]}, "is not PEM: give a PEM"),
        ({**store, "ssl.keystore.password": "hunter3"}, "ssl.keystore.location: "),
        ({**store, "ssl.truststore.password": None}, "its password is missing or wrong"),
        ({**store, "ssl.keystore.location": no_key}, "contains no private key with a certificate"),
    ]
    for properties, message in cases:
        with pytest.raises(ConnectionPropertyError) as caught:
            kafka_python_settings({"security.protocol": "SSL", **properties})
        assert message in str(caught.value), properties
        assert "\n" not in str(caught.value)
        assert "hunter" not in str(caught.value)
