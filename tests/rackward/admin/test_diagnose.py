"""Servers that are no Kafka, or not the one that was described: each fault is told as it is."""

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

from placement_core import InvalidOptionError
from rackward.admin import AdminError, UnreachableError, connect
from rackward.admin import diagnose as probe
from tests.support.certificates import make_authority, written
from tests.support.waiting import PATIENCE

Talk = Callable[[socket.socket], None]


@contextmanager
def server(talk: Talk, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """A port on which ``talk`` is held with whoever calls."""
    with socket.create_server(("127.0.0.1", 0)) as listening, ExitStack() as open_ones:
        listening.settimeout(PATIENCE)

        def serve() -> None:
            while True:
                try:
                    caller, _ = listening.accept()
                except OSError:
                    return
                open_ones.callback(caller.close)
                try:
                    if context is not None:
                        caller = open_ones.enter_context(
                            context.wrap_socket(caller, server_side=True)
                        )
                    talk(caller)
                except OSError:
                    caller.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(listening.getsockname()[1])
        # accept() in the other thread goes on until it is woken.
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE)


def hang_up(caller: socket.socket) -> None:
    caller.recv(1000)
    caller.close()


def say_nothing(caller: socket.socket) -> None:
    caller.recv(1000)


def answer_as(text: bytes) -> Talk:
    def talk(caller: socket.socket) -> None:
        caller.recv(1000)
        caller.sendall(text)
        caller.close()

    return talk


SASL = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "hunter2"}
TLS_ALERT = b"\x15\x03\x03\x00\x02\x02\x46"


def fault(properties: dict[str, str], servers: str, timeout: float = PATIENCE) -> AdminError:
    with pytest.raises(AdminError) as told, connect(properties, servers, timeout):
        pass
    assert "\n" not in str(told.value)
    assert "hunter2" not in str(told.value)
    return told.value


@pytest.mark.parametrize(
    ("talk", "properties", "told"),
    [
        (hang_up, {}, "hangs up on this client (PLAINTEXT): it may expect TLS or SASL; set sec"),
        (hang_up, {"security.protocol": "SASL_PLAINTEXT", **SASL}, "(SASL_PLAINTEXT): it may exp"),
        (hang_up, {"security.protocol": "SSL"}, "does not speak TLS: set security.protocol to PL"),
        (answer_as(TLS_ALERT), {}, "expects TLS: set security.protocol to SSL or SASL_SSL"),
        (answer_as(b"HTTP/1.1 400 Bad Request\r\n\r\n"), {}, "is not Kafka: check the port"),
        (answer_as(b"SSH-2.0-OpenSSH_9.2\r\n"), {}, "is not Kafka: check the port"),
        (answer_as(b"HTTP/1.1 400 Bad Request\r\n\r\n"), {"security.protocol": "SSL"},
         "does not speak TLS: set security.protocol to PLAINTEXT"),
        (answer_as(b"220 mail\r\n"), {"security.protocol": "SASL_SSL", **SASL},
         "does not speak TLS: set security.protocol to SASL_PLAINTEXT"),
    ],
)  # fmt: skip
def test_who_answers_tells_what_to_change(
    talk: Talk, properties: dict[str, str], told: str
) -> None:
    with server(talk) as port:
        error = fault(properties, f"127.0.0.1:{port}")
    assert isinstance(error, UnreachableError)
    assert str(error).startswith((f"127.0.0.1:{port} ", f"what answers at 127.0.0.1:{port} "))
    assert told in str(error)


def test_one_that_says_nothing_takes_no_longer_than_allowed() -> None:
    with server(say_nothing) as port:
        error = fault({}, f"127.0.0.1:{port}", timeout=0.5)
    # As much as was left when it was asked.
    told = r"does not answer within 0\.[45]\d* s: check the address, and firewalls"
    assert re.search(told, str(error))


@pytest.mark.parametrize("servers", [1, 2])
def test_one_that_takes_its_time_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, servers: int
) -> None:
    monkeypatch.setattr(probe, "STEP_SECONDS", 0.1)

    def answer_late(caller: socket.socket) -> None:
        time.sleep(0.5)
        answer_as(b"HTTP/1.1 400 Bad Request\r\n\r\n")(caller)

    with ExitStack() as stack:
        ports = [stack.enter_context(server(answer_late)) for _ in range(servers)]
        error = fault({}, ",".join(f"127.0.0.1:{port}" for port in ports))
    assert f"what answers at 127.0.0.1:{ports[0]} is not Kafka" in str(error)


def test_who_says_something_is_believed_before_who_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probe, "STEP_SECONDS", 0.1)
    with server(say_nothing) as silent, server(hang_up) as other:
        error = fault({}, f"127.0.0.1:{silent},127.0.0.1:{other}", timeout=1.0)
    assert f"servers can be used: 127.0.0.1:{other} hangs up on this client" in str(error)


def test_names_and_ports_that_lead_nowhere() -> None:
    assert "the host name 'nowhere.invalid' is not known" in str(fault({}, "nowhere.invalid:9092"))
    with socket.socket() as bound:
        # Bound and not listened to: nobody else takes the port meanwhile.
        bound.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{bound.getsockname()[1]}"
        alone = fault({}, where)
        both = fault({}, f"{where},{where}")
    assert str(alone) == (
        f"nothing listens at {where}: check host and port, and that the broker is up"
    )
    assert str(both) == f"none of the 2 bootstrap servers can be used: {alone}"


def test_certificates_have_to_be_right_on_both_sides(tmp_path: Path) -> None:
    authority, stranger = make_authority(), make_authority("a stranger")
    broker = authority.sign("broker.example", addresses=())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(written(tmp_path, "broker.pem", broker.pem + broker.key_pem()))
    trusting = {
        "security.protocol": "SSL",
        "ssl.ca.location": written(tmp_path, "ca.pem", authority.pem),
    }
    with server(hang_up, context) as port:
        where = f"127.0.0.1:{port}"
        others = {**trusting, "ssl.ca.location": written(tmp_path, "other.pem", stranger.pem)}
        told = str(fault(others, where))
        assert told.startswith(f"the certificate of {where} is not trusted (")
        assert "set ssl.ca.location or ssl.truststore.location to the authority" in told
        told = str(fault(trusting, where))
        assert "is for another name" in told
        assert "or set ssl.endpoint.identification.algorithm to none" in told
        lax = {**trusting, "ssl.endpoint.identification.algorithm": "none"}
        assert "(SSL): it may want a client certificate or SASL" in str(fault(lax, where))
    # With TLS 1.3 a client believes itself welcome, and hears of it later, or not at all.
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=authority.pem)
    with server(hang_up, context) as port:
        assert "it may want a client certificate" in str(fault(lax, f"127.0.0.1:{port}"))


def test_without_any_server_nothing_is_tried() -> None:
    with pytest.raises(InvalidOptionError, match="give --bootstrap-server HOST:PORT, or boot"):
        connect({"client.id": "x"})
