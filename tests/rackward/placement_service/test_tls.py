"""Mutual TLS: who is served, and who is not."""

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
    ServiceLimits,
    ServiceTlsError,
    create_replica_placement,
)
from rackward.placement_service.protocol import PlacementRequest
from tests.support.certificates import Authority, Signed, make_authority, written
from tests.support.placement_server import Running, eventually, everything, framed_request, running
from tests.support.waiting import PATIENCE


@dataclass(frozen=True)
class Files:
    """``right``: signed by the authority that both trust; ``stranger``: by another one."""

    service: MutualTls
    right: MutualTls
    stranger: MutualTls
    trusting_another: MutualTls


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("certificates")
    ours, another = make_authority("ours"), make_authority("another")

    def tls(name: str, authority: Authority, trusted: Authority) -> MutualTls:
        return _files(folder, name, authority.sign(name), trusted)

    return Files(
        service=tls("service", ours, ours),
        right=tls("right", ours, ours),
        stranger=tls("stranger", another, ours),
        trusting_another=tls("trusting", ours, another),
    )


def _files(folder: Path, name: str, signed: Signed, trusted: Authority) -> MutualTls:
    return MutualTls(
        written(folder, f"{name}-ca.pem", trusted.pem),
        written(folder, f"{name}.pem", signed.pem),
        written(folder, f"{name}-key.pem", signed.key_pem()),
    )


def served_to(served: Running, tls: MutualTls | None) -> bool:
    found = create_replica_placement(str(served.address), 1, 2, tls=tls)
    return found == ((0, 1),)


def await_refused(served: Running, handshakes: int) -> None:
    """The service hangs up before it counts."""
    eventually(
        f"{handshakes} handshakes refused",
        lambda: served.service.counts.refused_handshakes == handshakes,
    )


def test_the_right_certificate_is_served_and_others_are_not(files: Files) -> None:
    with running(tls=files.service) as served:
        assert served_to(served, files.right)
        with pytest.raises(ServiceTlsError, match="trust"):
            served_to(served, files.stranger)
        assert served_to(served, files.right)
        assert served.service.counts.placements == 2
        await_refused(served, 1)


def test_a_large_answer_arrives_whole(files: Files) -> None:
    with running(tls=files.service) as served:
        found = create_replica_placement(str(served.address), 10_000, 5, tls=files.right)
    assert found == ((0, 1, 2, 3, 4),) * 10_000


def test_no_certificate_is_refused(files: Files) -> None:
    context = ssl.create_default_context(cafile=files.right.ca_file)

    def ask(plain: socket.socket) -> None:
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
            # By TLS 1.3 a client learns only now that it was refused.
            connection.sendall(framed_request(PlacementRequest(1, 1)))
            if not connection.recv(1000):
                raise EOFError

    with running(tls=files.service) as served:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context.maximum_version = version
            with served.connect() as plain, pytest.raises((OSError, EOFError)):
                ask(plain)
        await_refused(served, 2)
        assert served.service.counts.requests == 0
        assert served_to(served, files.right)


def test_a_certificate_of_our_own_making_is_refused(files: Files, tmp_path: Path) -> None:
    fake = make_authority("ours")
    with running(tls=files.service) as served:
        with pytest.raises(ServiceTlsError):
            served_to(served, _files(tmp_path, "fake", fake.sign("right"), fake))
        ours = Path(files.right.ca_file)
        mixed = _files(tmp_path, "mixed", fake.sign("right"), fake)
        mixed = MutualTls(str(ours), mixed.cert_file, mixed.key_file)
        with pytest.raises(ServiceTlsError):
            served_to(served, mixed)
        assert served_to(served, files.right)
        assert served.service.counts.requests == 2


def test_plain_text_at_a_port_for_tls(files: Files) -> None:
    with running(tls=files.service) as served:
        with pytest.raises(PlacementServiceError, match="expect"):
            served_to(served, None)
        with served.connect() as connection:
            connection.sendall(framed_request(PlacementRequest(1, 1)))
            connection.shutdown(socket.SHUT_WR)
            assert b"\0\0\0\x02\0" not in everything(connection)
        assert served_to(served, files.right)
        await_refused(served, 2)


def test_tls_at_a_port_for_plain_text(files: Files) -> None:
    with running() as served:
        with pytest.raises(ServiceTlsError):
            served_to(served, files.right)
        assert served_to(served, None)


def test_a_client_trusts_no_service_of_another_authority(files: Files) -> None:
    with running(tls=files.service) as served:
        with pytest.raises(ServiceTlsError, match=r"is not trusted .*: check the address"):
            served_to(served, files.trusting_another)
        assert served.service.counts.requests == 0


def test_a_client_trusts_no_service_of_another_name(files: Files, tmp_path: Path) -> None:
    ours = make_authority()
    elsewhere = _files(tmp_path, "s", ours.sign("elsewhere", addresses=("192.0.2.1",)), ours)
    client = _files(tmp_path, "c", ours.sign("c"), ours)
    with running(tls=elsewhere) as served, pytest.raises(ServiceTlsError, match="mismatch"):
        served_to(served, client)
    assert files.service != elsewhere


def test_who_never_ends_the_handshake_is_hung_up_on(files: Files) -> None:
    limits = ServiceLimits(connections=4, handshake_seconds=0.2)
    with running(limits=limits, tls=files.service) as served, served.connect() as silent:
        assert everything(silent) == b""
        await_refused(served, 1)


def test_silent_handshakes_keep_nobody_out(files: Files) -> None:
    limits = ServiceLimits(connections=4, handshake_seconds=PATIENCE)
    with running(limits=limits, tls=files.service) as served:
        silent = [served.connect() for _ in range(12)]
        assert served_to(served, files.right)
        for each in silent:
            each.close()


def test_the_key_may_be_in_the_certificates_file(files: Files, tmp_path: Path) -> None:
    assert files.right.key_file is not None
    both = Path(files.right.cert_file).read_text() + Path(files.right.key_file).read_text()
    tls = MutualTls(files.right.ca_file, written(tmp_path, "both.pem", both))
    with running(tls=files.service) as served:
        assert served_to(served, tls)


def test_an_encrypted_key_is_refused_in_words_that_fit(files: Files, tmp_path: Path) -> None:
    signed = make_authority().sign("it")
    key = written(tmp_path, "key.pem", signed.key_pem("secret"))
    tls = MutualTls(files.right.ca_file, written(tmp_path, "it.pem", signed.pem), key)
    for make in (tls.server_context, tls.client_context):
        with pytest.raises(ConnectionPropertyError, match=r"^key_file: its key is encrypted"):
            make()
