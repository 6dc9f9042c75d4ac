"""Errors: of Kafka's error codes, of kafka-python's exceptions, and of connections that fail."""

from __future__ import annotations

import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from kafka.errors import (
    ClusterAuthorizationFailedError,
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    IncompatibleBrokerVersion,
    InvalidReplicationFactorError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
)

from placement_core import InvalidOptionError
from rackward.kafka import (
    AdminError,
    AdminTimeoutError,
    CredentialsError,
    RefusedError,
    TooOldError,
    UnauthorizedError,
    UnreachableError,
    client,
    connect,
    errors,
)
from rackward.kafka.errors import from_code, wrap
from tests.support.security import make_authority, write_file
from tests.support.waiting import TEST_TIMEOUT


@pytest.mark.parametrize(
    ("code", "message", "kind", "expected"),
    [
        (36, "Topic 'a' already\nexists.", RefusedError,
         "creating a: Topic 'a' already exists: choose another name, or delete it first"),
        (36, None, RefusedError,
         "creating a: topic already exists: choose another name, or delete it first"),
        (38, None, RefusedError, "creating a: invalid replication factor"),
        (17, None, RefusedError,
         "creating a: a topic name has letters, digits, dots, underscores and hyphens, at most "
         "249"),
        (29, "Authorization failed.", UnauthorizedError,
         "creating a: not authorized: grant this user Create on the cluster, or on the topic"),
        (7, None, AdminTimeoutError,
         "creating a: the controller did not finish in time (request timed out)"),
        (9999, None, RefusedError, "creating a: unknown error code 9999"),
    ],
)  # fmt: skip
def test_message_of_an_error_code(
    code: int, message: str | None, kind: type, expected: str
) -> None:
    error = from_code("creating a", "CreateTopicsRequest", code, message)
    assert type(error) is kind
    assert str(error) == expected
    if isinstance(error, RefusedError):
        assert error.code == code


def test_message_of_a_client_exception() -> None:
    authentication = wrap("connecting", SaslAuthenticationFailedError("Authentication failed"))
    assert isinstance(authentication, CredentialsError)
    assert "authentication failed (Authentication failed): check sasl" in str(authentication)
    too_old = wrap("reading", IncompatibleBrokerVersion("Kafka 0.9\ndoes not"))
    assert isinstance(too_old, TooOldError)
    assert "\n" not in str(too_old)
    no_text = wrap("verifying", CoordinatorNotAvailableError(None))
    assert str(no_text) == "verifying: coordinator not available"
    refused = wrap("creating a", InvalidReplicationFactorError("too many"))
    assert isinstance(refused, RefusedError)
    assert (refused.code, str(refused)) == (38, "creating a: too many")


def test_a_client_exception_names_the_right_that_is_missing() -> None:
    for error, right in (
        (TopicAuthorizationFailedError({"orders"}), "Read on orders"),
        (GroupAuthorizationFailedError("billing"), "Read on group billing"),
        (ClusterAuthorizationFailedError(), "what it lacks (cluster authorization failed)"),
    ):
        wrapped = wrap(
            "reading", error, topic_acl="Read on orders", group_acl="Read on group billing"
        )
        assert isinstance(wrapped, UnauthorizedError)
        assert str(wrapped) == f"reading: not authorized: grant this user {right}"


# ---- Connections: to servers other than Kafka, and to Kafka with other settings.


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for the fault almost at once."""
    monkeypatch.setattr(client, "FIRST_ATTEMPT_SECONDS", 0.05)


Respond = Callable[[socket.socket], None]


@contextmanager
def server(respond: Respond, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """Accept connections, pass each to ``respond`` in its own thread, and give the port."""
    with socket.create_server(("127.0.0.1", 0)) as listening, ExitStack() as connections:
        listening.settimeout(TEST_TIMEOUT)

        def serve(connection: socket.socket) -> None:
            connections.callback(connection.close)
            try:
                if context is not None:
                    connection = connections.enter_context(
                        context.wrap_socket(connection, server_side=True)
                    )
                respond(connection)
            except OSError:
                connection.close()

        def accept() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=[connection], daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield int(listening.getsockname()[1])
        # Unblocks accept() in the other thread.
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(TEST_TIMEOUT)


def close(connection: socket.socket) -> None:
    connection.recv(1000)
    connection.close()


def ignore(connection: socket.socket) -> None:
    connection.recv(1000)


def send(data: bytes) -> Respond:
    def respond(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(data)
        connection.close()

    return respond


SASL = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "hunter2"}
TLS_ALERT = b"\x15\x03\x03\x00\x02\x02\x46"


def connect_error(
    properties: dict[str, str], servers: str, timeout: float = TEST_TIMEOUT
) -> AdminError:
    with pytest.raises(AdminError) as raised, connect(properties, servers, timeout):
        pass
    assert "\n" not in str(raised.value)
    assert "hunter2" not in str(raised.value)
    return raised.value


HTTP_ERROR = b"HTTP/1.1 400 Bad Request\r\n\r\n"


@pytest.mark.parametrize(
    ("respond", "properties", "expected"),
    [
        (close, {}, "closed the connection (PLAINTEXT): the listener may require TLS or SASL; set"),
        (close, {"security.protocol": "SASL_PLAINTEXT", **SASL}, "(SASL_PLAINTEXT): the listener"),
        (close, {"security.protocol": "SSL"}, "does not use TLS: set security.protocol to PL"),
        (send(TLS_ALERT), {}, "requires TLS: set security.protocol to SSL or SASL_SSL"),
        (send(HTTP_ERROR), {}, "is not Kafka: check the port"),
        (send(b"SSH-2.0-OpenSSH_9.2\r\n"), {}, "is not Kafka: check the port"),
        (send(HTTP_ERROR), {"security.protocol": "SSL"},
         "does not use TLS: set security.protocol to PLAINTEXT"),
        (send(b"220 mail\r\n"), {"security.protocol": "SASL_SSL", **SASL},
         "does not use TLS: set security.protocol to SASL_PLAINTEXT"),
    ],
)  # fmt: skip
def test_error_of_a_server_that_responds(
    respond: Respond, properties: dict[str, str], expected: str
) -> None:
    with server(respond) as port:
        error = connect_error(properties, f"127.0.0.1:{port}")
    assert isinstance(error, UnreachableError)
    assert str(error).startswith((f"127.0.0.1:{port} ", f"the server at 127.0.0.1:{port} "))
    assert expected in str(error)


def test_a_server_that_waits_for_a_line_is_not_kafka() -> None:
    def respond(connection: socket.socket) -> None:
        received = b""
        while b"\r\n\r\n" not in received:
            received += connection.recv(1000)
        connection.sendall(HTTP_ERROR)

    with server(respond) as port:
        error = connect_error({}, f"127.0.0.1:{port}", timeout=1.0)
    assert f"the server at 127.0.0.1:{port} is not Kafka: check the port" in str(error)


def test_a_silent_server_takes_no_longer_than_the_timeout() -> None:
    with server(ignore) as port:
        error = connect_error({}, f"127.0.0.1:{port}", timeout=0.5)
    # The message has the time that was left when the request was sent.
    expected = r"did not respond within 0\.[45]\d* s: check the address, and firewalls"
    assert re.search(expected, str(error))


@pytest.mark.parametrize("servers", [1, 2])
def test_a_slow_server_is_not_a_timeout(monkeypatch: pytest.MonkeyPatch, servers: int) -> None:
    monkeypatch.setattr(errors, "STEP_SECONDS", 0.1)

    def respond_late(connection: socket.socket) -> None:
        time.sleep(0.5)
        send(HTTP_ERROR)(connection)

    with ExitStack() as stack:
        ports = [stack.enter_context(server(respond_late)) for _ in range(servers)]
        error = connect_error({}, ",".join(f"127.0.0.1:{port}" for port in ports))
    assert f"the server at 127.0.0.1:{ports[0]} is not Kafka" in str(error)


def test_a_definite_error_takes_precedence_over_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "STEP_SECONDS", 0.1)
    with server(ignore) as silent, server(close) as other:
        error = connect_error({}, f"127.0.0.1:{silent},127.0.0.1:{other}", timeout=1.0)
    assert f"servers can be used: 127.0.0.1:{other} closed the connection" in str(error)


def test_unknown_hosts_and_closed_ports() -> None:
    assert "unknown host 'nowhere.invalid'" in str(connect_error({}, "nowhere.invalid:9092"))
    with socket.socket() as bound:
        # Bound but not listening, so that no other process can use the port.
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        single = connect_error({}, address)
        both = connect_error({}, f"{address},{address}")
    assert str(single) == (
        f"{address} refused the connection: check host and port, and that the broker is running"
    )
    assert str(both) == f"none of the 2 bootstrap servers can be used: {single}"


def test_certificate_errors_of_both_sides(tmp_path: Path) -> None:
    authority, other = make_authority(), make_authority("another authority")
    broker = authority.sign("broker.example", addresses=())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(write_file(tmp_path, "broker.pem", broker.pem + broker.key_pem()))
    trusting = {
        "security.protocol": "SSL",
        "ssl.ca.location": write_file(tmp_path, "ca.pem", authority.pem),
    }
    with server(close, context) as port:
        address = f"127.0.0.1:{port}"
        distrusting = {**trusting, "ssl.ca.location": write_file(tmp_path, "other.pem", other.pem)}
        error = str(connect_error(distrusting, address))
        assert error.startswith(f"the certificate of {address} is not trusted (")
        assert "set ssl.ca.location or ssl.truststore.location to the authority" in error
        error = str(connect_error(trusting, address))
        assert "is for another name" in error
        assert "or set ssl.endpoint.identification.algorithm to none" in error
        any_name = {**trusting, "ssl.endpoint.identification.algorithm": "none"}
        error = str(connect_error(any_name, address))
        assert "(SSL): the listener may require a client certificate or SASL" in error
    # With TLS 1.3 the server refuses a client only after the client's handshake is complete.
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=authority.pem)
    with server(close, context) as port:
        error = str(connect_error(any_name, f"127.0.0.1:{port}"))
        assert "may require a client certificate" in error


def test_no_bootstrap_server() -> None:
    with pytest.raises(InvalidOptionError, match=r"set bootstrap\.servers"):
        connect({"client.id": "x"})
