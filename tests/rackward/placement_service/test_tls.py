"""Mutual TLS: which certificates are accepted."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

import pytest

from assignors.connection import ConnectionPropertyError
from rackward.placement_service import (
    MutualTls,
    PlacementServiceError,
    ServiceTlsError,
    create_replica_placement,
)
from tests.support.placement_server import (
    RunningService,
    receive_all,
    request_frame,
    run_service,
)
from tests.support.security import Authority, Signed, make_authority, write_file
from tests.support.waiting import TEST_TIMEOUT, wait_until


@dataclass(frozen=True)
class Files:
    """TLS files of the service and of clients.

    ``client`` is signed by the authority that both trust, ``untrusted`` by another one;
    ``other_trust`` trusts another authority.
    """

    service: MutualTls
    client: MutualTls
    untrusted: MutualTls
    other_trust: MutualTls


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("certificates")
    own, another = make_authority("own"), make_authority("another")

    def tls(name: str, authority: Authority, trusted: Authority) -> MutualTls:
        return _files(folder, name, authority.sign(name), trusted)

    return Files(
        service=tls("service", own, own),
        client=tls("client", own, own),
        untrusted=tls("untrusted", another, own),
        other_trust=tls("trusting", own, another),
    )


def _files(folder: Path, name: str, signed: Signed, trusted: Authority) -> MutualTls:
    return MutualTls(
        write_file(folder, f"{name}-ca.pem", trusted.pem),
        write_file(folder, f"{name}.pem", signed.pem),
        write_file(folder, f"{name}-key.pem", signed.key_pem()),
    )


def place_as(service: RunningService, tls: MutualTls | None) -> bool:
    return create_replica_placement(str(service.address), 1, 2, tls=tls) == ((0, 1),)


def wait_for_failed_handshakes(service: RunningService, handshakes: int) -> None:
    """The service closes the connection before it counts."""
    wait_until(
        lambda: service.metrics.failed_handshakes == handshakes,
        TEST_TIMEOUT,
        f"{handshakes} failed handshakes",
    )


def test_only_trusted_certificates_are_accepted(files: Files) -> None:
    with run_service(tls=files.service) as service:
        assert place_as(service, files.client)
        with pytest.raises(ServiceTlsError, match="trust"):
            place_as(service, files.untrusted)
        assert place_as(service, files.client)
        assert service.metrics.placements == 2
        wait_for_failed_handshakes(service, 1)


def test_a_large_response(files: Files) -> None:
    with run_service(tls=files.service) as service:
        replicas = create_replica_placement(str(service.address), 10_000, 5, tls=files.client)
    assert replicas == ((0, 1, 2, 3, 4),) * 10_000


def test_a_client_without_a_certificate_is_refused(files: Files) -> None:
    context = ssl.create_default_context(cafile=files.client.ca_file)

    def request(plain: socket.socket) -> None:
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
            # With TLS 1.3 the refusal arrives only now.
            connection.sendall(request_frame(1, 1))
            if not connection.recv(1000):
                raise EOFError

    with run_service(tls=files.service) as service:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context.maximum_version = version
            with service.connect() as plain, pytest.raises((OSError, EOFError)):
                request(plain)
        wait_for_failed_handshakes(service, 2)
        assert service.metrics.requests == 0
        assert place_as(service, files.client)


def test_a_plaintext_client_of_a_tls_port(files: Files) -> None:
    with run_service(tls=files.service) as service:
        with pytest.raises(PlacementServiceError, match="require"):
            place_as(service, None)
        assert b"\0\0\0\x02\0" not in service.exchange(request_frame(1, 1))
        assert place_as(service, files.client)
        wait_for_failed_handshakes(service, 2)


def test_a_tls_client_of_a_plaintext_port(files: Files) -> None:
    with run_service() as service:
        with pytest.raises(ServiceTlsError):
            place_as(service, files.client)
        assert place_as(service, None)


def test_a_client_refuses_a_service_of_another_authority(files: Files) -> None:
    with run_service(tls=files.service) as service:
        with pytest.raises(ServiceTlsError, match=r"is not trusted .*: check the address"):
            place_as(service, files.other_trust)
        assert service.metrics.requests == 0


def test_a_client_refuses_a_service_of_another_name(files: Files, tmp_path: Path) -> None:
    own = make_authority()
    elsewhere = _files(tmp_path, "s", own.sign("elsewhere", addresses=("192.0.2.1",)), own)
    client = _files(tmp_path, "c", own.sign("c"), own)
    with run_service(tls=elsewhere) as service, pytest.raises(ServiceTlsError, match="mismatch"):
        place_as(service, client)
    assert files.service != elsewhere


def test_a_handshake_that_takes_too_long(files: Files) -> None:
    with (
        run_service(tls=files.service, STEP_SECONDS=0.2) as service,
        service.connect() as silent,
    ):
        assert receive_all(silent) == b""
        wait_for_failed_handshakes(service, 1)


def test_the_key_may_be_in_the_file_of_the_certificate(files: Files, tmp_path: Path) -> None:
    assert files.client.key_file is not None
    both = Path(files.client.cert_file).read_text() + Path(files.client.key_file).read_text()
    tls = MutualTls(files.client.ca_file, write_file(tmp_path, "both.pem", both))
    with run_service(tls=files.service) as service:
        assert place_as(service, tls)


def test_an_encrypted_key_is_refused(files: Files, tmp_path: Path) -> None:
    signed = make_authority().sign("it")
    key = write_file(tmp_path, "key.pem", signed.key_pem("secret"))
    tls = MutualTls(files.client.ca_file, write_file(tmp_path, "it.pem", signed.pem), key)
    for make in (tls.server_context, tls.client_context):
        with pytest.raises(ConnectionPropertyError, match=r"^key_file: its key is encrypted"):
            make()
