"""Why a broker cannot be talked to, found out before a client is let loose on it.

kafka-python tries again and again whatever is wrong, and then says that it took too long. A
connection of our own goes through the same steps (name, port, TLS, Kafka, SASL) and sees
where it ends.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from placement_core import RackwardError
from rackward.admin.errors import AdminError, CredentialsError, Deadline, UnreachableError, one_line

# ---- One connection to one broker, for the few requests where the caller says who is asked.
#
# A client proper looks after itself: it asks whichever broker it likes, and may like the one
# that has just frozen, for as long as its time-outs are; and of several faults it tells none.
# Here a silent broker costs nothing, and every fault is told as it is. kafka-python's protocol
# layer encodes and decodes.


class NotKafkaError(RackwardError, OSError):
    """What answers is no broker, or speaks TLS; ``received`` is how its answer begins."""

    def __init__(self, received: bytes) -> None:
        self.received = received[:16]
        super().__init__(f"the answer is not Kafka's: it begins with {self.received!r}")


class Connection:
    """Requests and answers, one after the other; OSError where the broker does not answer.

    ``timeout`` is in seconds and counts for each step; ``context`` makes it TLS.
    """

    def __init__(
        self, host: str, port: int, timeout: float, context: ssl.SSLContext | None = None
    ) -> None:
        from kafka.protocol.parser import KafkaProtocol

        self._protocol = KafkaProtocol(client_id="rackward", ident=f"{host}:{port}")
        self._begin = b""
        self._socket: socket.socket = socket.create_connection((host, port), timeout)
        if context is not None:
            try:
                self._socket = context.wrap_socket(self._socket, server_hostname=host.rstrip("."))
            except BaseException:
                self._socket.close()
                raise

    def ask(self, request: Any) -> Any:
        """Send a request of a fixed version (``SomeRequest[3](...)``); returns the answer.

        Raises NotKafkaError where the answer cannot be one, and other OSErrors.
        """
        from kafka.errors import KafkaError

        self._protocol.send_request(request)
        self._socket.sendall(self._protocol.send_bytes())
        while True:
            received = self._socket.recv(65536)
            self._begin = (self._begin + received)[:16]
            if not received:
                if self._begin and not self._begin.startswith(b"\0"):
                    raise NotKafkaError(self._begin)
                raise ConnectionError("the broker closed the connection")
            try:
                answers = self._protocol.receive_bytes(received)
            except KafkaError as error:
                raise NotKafkaError(self._begin) from error
            for _, answer in answers:
                return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()


STEP_SECONDS = 5.0
"""How long one of several servers may take for a step before the next one is tried."""

_TLS_ALERT, _TLS_HANDSHAKE = b"\x15\x03", b"\x16\x03"
_UNSUPPORTED_MECHANISM, _ILLEGAL_STATE = 33, 34


class _SilentError(UnreachableError):
    """It may answer yet."""


def first_that_answers(settings: Mapping[str, Any], deadline: Deadline) -> str:
    """The first of the bootstrap servers that can be talked to, as ``host:port``.

    ``settings`` are keywords of kafka-python. Those that are silent are asked again while the
    deadline lasts. Raises an AdminError that says what is wrong with the first server where none
    can be, or with the first that says something.
    """
    servers: Sequence[str] = settings["bootstrap_servers"]
    faults: dict[str, AdminError] = {}
    asked, patience = servers, STEP_SECONDS if len(servers) > 1 else deadline.seconds
    while asked and (deadline.remaining or not faults):
        for server in asked:
            if faults and not deadline.remaining:
                break
            try:
                _talk(server, settings, min(patience, max(deadline.remaining, 0.05)))
            except CredentialsError:
                # The others would say the same, and may lock somebody out who tries too often.
                raise
            except AdminError as error:
                faults[server] = error
            else:
                return server
        # Busy perhaps: what time there is belongs to them.
        asked = [each for each in asked if isinstance(faults.get(each), _SilentError)]
        patience = deadline.remaining / max(1, len(asked))
    told = [each for each in faults.values() if not isinstance(each, _SilentError)]
    first = (told or list(faults.values()))[0]
    if len(servers) == 1:
        raise first
    raise type(first)(f"none of the {len(servers)} bootstrap servers can be used: {first}")


def _talk(server: str, settings: Mapping[str, Any], timeout: float) -> None:
    host, _, port = server.rpartition(":")
    protocol = str(settings["security_protocol"])
    try:
        context = settings.get("ssl_context")
        connection = Connection(host.strip("[]"), int(port), timeout, context)
    except ssl.SSLError as error:
        raise _no_handshake(server, error, protocol) from error
    except OSError as error:
        raise _fault(server, error, protocol, timeout) from error
    with connection:
        try:
            _ask(connection, server, settings, protocol)
        except OSError as error:
            raise _fault(server, error, protocol, timeout) from error


def _fault(server: str, error: OSError, protocol: str, timeout: float) -> AdminError:
    match error:
        case NotKafkaError():
            return _stranger(server, error.received)
        case socket.gaierror():
            host = server.rpartition(":")[0]
            return UnreachableError(f"the host name {host!r} is not known: check it")
        case TimeoutError():
            return _SilentError(
                f"{server} does not answer within {timeout:.3g} s: check the address, and "
                "firewalls on the way"
            )
        case ConnectionRefusedError():
            return UnreachableError(
                f"nothing listens at {server}: check host and port, and that the broker is up"
            )
        case ssl.SSLError() if (alert := _words(error)) and "certificate" in alert:
            return _no_certificate(server, alert)
        case ConnectionError() | ssl.SSLError():
            return _hung_up(server, protocol)
    return UnreachableError(
        f"{server} cannot be reached: {error.strerror or error}; check address and network"
    )


def _ask(connection: Connection, server: str, settings: Mapping[str, Any], protocol: str) -> None:
    from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

    connection.ask(ApiVersionsRequest[0]())
    if protocol.startswith("SASL_"):
        _authenticate(connection, server, settings, protocol)
    # A broker that expects SASL and gets none hangs up here, and not before.
    connection.ask(MetadataRequest[1](topics=[]))


def _authenticate(
    connection: Connection, server: str, settings: Mapping[str, Any], protocol: str
) -> None:
    """As the client will, which loses a broker's refusal where the connection ends with it."""
    from kafka.net.sasl import get_sasl_mechanism
    from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

    name = settings["sasl_mechanism"]
    answer = connection.ask(SaslHandshakeRequest[1](mechanism=name))
    if answer.error_code == _UNSUPPORTED_MECHANISM:
        raise CredentialsError(
            f"{server} does not take the SASL mechanism {name}: set sasl.mechanism to one of "
            f"{', '.join(sorted(answer.mechanisms))}"
        )
    if answer.error_code == _ILLEGAL_STATE:
        raise CredentialsError(
            f"{server} does not ask who the client is (no SASL on this listener): set "
            f"security.protocol to {protocol.removeprefix('SASL_')}, or name another port"
        )
    mechanism = get_sasl_mechanism(name)(host=server.rpartition(":")[0], **settings)
    while not mechanism.is_done():
        answer = connection.ask(SaslAuthenticateRequest[1](mechanism.auth_bytes()))
        if answer.error_code:
            told = one_line(answer.error_message or "authentication failed")
            raise CredentialsError(
                f"{server} does not take this user and password ({told}): check sasl.username "
                "and sasl.password, or sasl.jaas.config"
            )
        try:
            mechanism.receive(answer.auth_bytes)
        except ValueError as error:
            raise CredentialsError(
                f"{server} does not prove that it knows the password ({one_line(error)}): do not "
                "trust it, or check sasl.mechanism"
            ) from error


def _no_handshake(server: str, error: ssl.SSLError, protocol: str) -> AdminError:
    if isinstance(error, ssl.SSLCertVerificationError):
        told = error.verify_message.rstrip(".")
        if "mismatch" in told:
            return UnreachableError(
                f"the certificate of {server} is for another name ({told}): use a name that it "
                "has, or set ssl.endpoint.identification.algorithm to none"
            )
        return UnreachableError(
            f"the certificate of {server} is not trusted ({told}): set ssl.ca.location or "
            "ssl.truststore.location to the authority that signed it"
        )
    reason = _words(error)
    if "alert" in reason and "certificate" in reason:
        return _no_certificate(server, reason)
    if isinstance(error, ssl.SSLEOFError) or "version number" in reason or "record" in reason:
        plain = "SASL_PLAINTEXT" if protocol.startswith("SASL_") else "PLAINTEXT"
        return UnreachableError(
            f"{server} does not speak TLS: set security.protocol to {plain}, or name the port of "
            "its TLS listener"
        )
    return UnreachableError(
        f"{server} and this client agree on no TLS ({reason}): it may want a client certificate "
        "(ssl.keystore.location), or other ssl.enabled.protocols or ssl.cipher.suites"
    )


def _no_certificate(server: str, reason: str) -> AdminError:
    return CredentialsError(
        f"{server} asks for a client certificate that it trusts ({reason}): set "
        "ssl.certificate.location and ssl.key.location, or ssl.keystore.location"
    )


def _words(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()


def _stranger(server: str, received: bytes) -> AdminError:
    if received.startswith((_TLS_ALERT, _TLS_HANDSHAKE)):
        return UnreachableError(
            f"{server} expects TLS: set security.protocol to SSL or SASL_SSL in --command-config"
        )
    return UnreachableError(f"what answers at {server} is not Kafka: check the port")


def _hung_up(server: str, protocol: str) -> AdminError:
    if protocol in ("SSL", "SASL_SSL"):
        advice = "it may want a client certificate or SASL, or not speak TLS at all"
    elif protocol == "PLAINTEXT":
        advice = "it may expect TLS or SASL"
    else:
        advice = "it may expect TLS"
    return UnreachableError(
        f"{server} hangs up on this client ({protocol}): {advice}; set security.protocol and "
        "what belongs to it in --command-config, or name another port"
    )
