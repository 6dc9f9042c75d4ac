"""Errors of requests to a cluster, and the diagnosis of connections that fail.

Each error is one line, which ends in what to do about it. `from_code` makes it from an error code
in a broker's response, `wrap` from an exception of kafka-python.

kafka-python retries whatever is wrong with a connection and then reports a timeout. If it cannot
connect, `RawConnection` goes through the same steps once (host name, port, TLS, Kafka protocol,
SASL), and the step that fails determines the error that a user sees.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

from kafka import errors as kafka_errors
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from placement_core import RackwardError
from rackward.units import Deadline


class AdminError(RackwardError):
    """A request to the cluster failed."""


class UnreachableError(AdminError):
    """No broker could be reached, or the server is not a Kafka broker with these settings."""


class CredentialsError(AdminError):
    """Authentication failed."""


class UnauthorizedError(AdminError):
    """The user is not authorized; the message names the ACL operation that is missing."""


class AdminTimeoutError(AdminError, TimeoutError):
    """The cluster did not respond in time."""


class TooOldError(AdminError):
    """The brokers do not support the request."""


class TooLargeError(AdminError):
    """The response is larger than ``receive.message.max.bytes``."""


class RefusedError(AdminError):
    """The cluster refused the request; ``code`` is Kafka's error code."""

    def __init__(self, message: str, code: int) -> None:
        self.code = code
        super().__init__(message)


UNKNOWN_TOPIC = 3
REQUEST_TIMED_OUT = 7
COORDINATOR_LOADING = 14
INVALID_TOPIC = 17
TOPIC_AUTHORIZATION_FAILED = 29
TOPIC_EXISTS = 36
INVALID_PARTITIONS = 37
NOT_CONTROLLER = 41
POLICY_VIOLATION = 44
REASSIGNMENT_IN_PROGRESS = 60
ELECTION_NOT_NEEDED = 84
THROTTLING_QUOTA_EXCEEDED = 89

GROUP_AUTHORIZATION_FAILED = 30
_AUTHORIZATION_FAILED = (TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, 31, 53)

_REQUIRED_ACLS = {
    "AlterPartitionReassignments": "Alter on the cluster",
    "CreatePartitions": "Alter on the topic",
    "CreateTopics": "Create on the cluster, or on the topic",
    "DescribeLogDirs": "Describe on the cluster",
    "ElectLeaders": "Alter on the cluster",
    "ListPartitionReassignments": "Describe on the cluster",
}
"""Request name to the ACL operation that it needs."""

_EXPLANATIONS = {
    UNKNOWN_TOPIC: "the topic or partition does not exist, or this user may not describe it",
    INVALID_TOPIC: "a topic name has letters, digits, dots, underscores and hyphens, at most 249",
}
_ADVICE = {
    TOPIC_EXISTS: "choose another name, or delete it first",
    POLICY_VIOLATION: "a policy of the cluster forbids it: contact its administrators",
    REASSIGNMENT_IN_PROGRESS: "wait until it is done, or cancel it first",
    THROTTLING_QUOTA_EXCEEDED: "the cluster limits the rate of changes: try again later",
}


def from_code(
    operation: str, api: str, code: int, message: str | None = None, acl: str | None = None
) -> AdminError:
    """Return the error for an error code in a broker's response.

    ``operation`` begins the message ("creating topic orders"). ``api`` is the request's name
    ("CreateTopics" or "CreateTopicsRequest"). ``message`` is the broker's own text, if it sent one.
    ``acl`` is the missing ACL operation if it depends on the resource.
    """
    name = kafka_errors.for_code(code).__name__
    if code in _AUTHORIZATION_FAILED:
        api_name = api.removesuffix("Request")
        missing = acl or _REQUIRED_ACLS.get(api_name, api_name) or f"what it lacks ({_words(name)})"
        return UnauthorizedError(f"{operation}: not authorized: grant this user {missing}")
    reason = one_line(message or _EXPLANATIONS.get(code) or _words(name)).rstrip(".")
    if name == "UnrecognizedBrokerError" and not message:
        reason = f"unknown error code {code}"
    if code == REQUEST_TIMED_OUT:
        return AdminTimeoutError(f"{operation}: the controller did not finish in time ({reason})")
    if advice := _ADVICE.get(code):
        reason = f"{reason}: {advice}"
    return RefusedError(f"{operation}: {reason}", code)


def wrap(
    operation: str, error: Exception, *, topic_acl: str | None = None, group_acl: str | None = None
) -> AdminError:
    """Return an exception of kafka-python, one that retrying does not help, as an AdminError.

    ``topic_acl`` and ``group_acl`` are the ACL operations that the request needs.
    """
    reason = reason_of(error)
    if isinstance(error, kafka_errors.SaslAuthenticationFailedError):
        return CredentialsError(f"{operation}: {_authentication_failed(reason)}")
    if isinstance(error, kafka_errors.IncompatibleBrokerVersion):
        return TooOldError(
            f"{operation}: the brokers do not support this request ({reason}): they are too old, "
            "or the address is that of a controller"
        )
    if isinstance(error, kafka_errors.InvalidReceiveError):
        return TooLargeError(
            f"{operation}: the response is too large ({reason}): increase receive.message.max.bytes"
        )
    code = getattr(error, "errno", None)
    if isinstance(code, int) and code > 0:
        acls = {TOPIC_AUTHORIZATION_FAILED: topic_acl, GROUP_AUTHORIZATION_FAILED: group_acl}
        return from_code(operation, "", code, reason, acl=acls.get(code))
    return AdminError(f"{operation}: {reason}")


def _authentication_failed(reason: str) -> str:
    return (
        f"authentication failed ({reason}): check sasl.username and sasl.password, or "
        "sasl.jaas.config; for OAUTHBEARER check sasl.oauthbearer.client.id, "
        "sasl.oauthbearer.scope and the broker's issuer"
    )


def reason_of(error: Exception) -> str:
    """Return the text of an exception of kafka-python; its name in words if it has no text."""
    text = error.args[0] if error.args else None
    return one_line(text or _words(type(error).__name__))


def one_line(text: object) -> str:
    """Return the text with each run of white space replaced by one blank."""
    return " ".join(str(text).split())


def _words(name: str) -> str:
    """Return ``InvalidReplicationFactorError`` as ``invalid replication factor``."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", name.removesuffix("Error")).lower()


STEP_SECONDS = 5.0
"""Timeout of each step while there are other bootstrap servers to try."""

END_LINE_SECONDS = 0.5
"""Time for a server that did not respond to respond to the end of a line."""

_TLS_ALERT, _TLS_HANDSHAKE = b"\x15\x03", b"\x16\x03"
_UNSUPPORTED_SASL_MECHANISM, _ILLEGAL_SASL_STATE = 33, 34


class _SilentError(UnreachableError):
    """The server did not respond; it may still do so."""


def pick_bootstrap_server(settings: Mapping[str, Any], deadline: Deadline) -> str:
    """Return the first bootstrap server that accepts this client, as ``host:port``.

    ``settings`` are keyword arguments of kafka-python. Servers that do not respond are tried again
    until the deadline. Raises an AdminError about the first server that failed with a definite
    fault, or about the first one if none responded.
    """
    servers: Sequence[str] = settings["bootstrap_servers"]
    errors: dict[str, AdminError] = {}
    candidates = servers
    timeout = STEP_SECONDS if len(servers) > 1 else deadline.seconds
    while candidates and (deadline.remaining or not errors):
        for server in candidates:
            if errors and not deadline.remaining:
                break
            try:
                _probe(server, settings, min(timeout, max(deadline.remaining, 0.05)))
            except CredentialsError:
                # The other servers share these users, and repeated failures may lock an account.
                raise
            except AdminError as error:
                errors[server] = error
            else:
                return server
        # Servers that are merely slow share the time that is left.
        candidates = [each for each in candidates if isinstance(errors.get(each), _SilentError)]
        timeout = deadline.remaining / max(1, len(candidates))
    definite = [each for each in errors.values() if not isinstance(each, _SilentError)]
    first = (definite or list(errors.values()))[0]
    if len(servers) == 1:
        raise first
    raise type(first)(f"none of the {len(servers)} bootstrap servers can be used: {first}")


class NotKafkaError(RackwardError, OSError):
    """The response is not Kafka's; ``received`` holds its first bytes."""

    def __init__(self, received: bytes) -> None:
        self.received = received[:16]
        super().__init__(f"the response is not Kafka's: it begins with {self.received!r}")


class RawConnection:
    """A connection to one broker that sends one request at a time and never retries.

    A full client chooses the broker itself and hides individual faults behind its retries. Here the
    caller chooses the broker, and every fault is raised as it is. kafka-python's protocol layer
    encodes and decodes. ``timeout``, in seconds, applies to each step; ``context`` enables TLS.
    Raises OSError if the server cannot be reached.
    """

    def __init__(
        self, host: str, port: int, timeout: float, context: ssl.SSLContext | None = None
    ) -> None:
        self._protocol = KafkaProtocol(client_id="rackward", ident=f"{host}:{port}")
        self._first_bytes = b""
        self._socket: socket.socket = socket.create_connection((host, port), timeout)
        if context is not None:
            try:
                self._socket = context.wrap_socket(self._socket, server_hostname=host.rstrip("."))
            except BaseException:
                self._socket.close()
                raise

    def send(self, request: Any) -> Any:
        """Send a request of a fixed version (``SomeRequest[3](...)``) and return its response.

        Raises NotKafkaError if the response cannot be Kafka's, and other OSErrors.
        """
        self._protocol.send_request(request)
        self._socket.sendall(self._protocol.send_bytes())
        while True:
            received = self._socket.recv(65536)
            self._first_bytes = (self._first_bytes + received)[:16]
            if not received:
                if self._first_bytes and not self._first_bytes.startswith(b"\0"):
                    raise NotKafkaError(self._first_bytes)
                raise ConnectionError("the broker closed the connection")
            try:
                responses = self._protocol.receive_bytes(received)
            except kafka_errors.KafkaError as error:
                raise NotKafkaError(self._first_bytes) from error
            for _, response in responses:
                return response

    def end_line(self) -> None:
        """Raise NotKafkaError if a server that did not respond does so at the end of a line.

        Servers of HTTP and the like wait for it.
        """
        with suppress(TimeoutError, ConnectionError):
            self._socket.settimeout(END_LINE_SECONDS)
            self._socket.sendall(b"\r\n\r\n")
            if received := self._socket.recv(16):
                raise NotKafkaError(received)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def _probe(server: str, settings: Mapping[str, Any], timeout: float) -> None:
    """Connect, authenticate and send one request. Raises AdminError."""
    host, _, port = server.rpartition(":")
    protocol = str(settings["security_protocol"])
    try:
        context = settings.get("ssl_context")
        connection = RawConnection(host.strip("[]"), int(port), timeout, context)
    except ssl.SSLError as error:
        raise _handshake_error(server, error, protocol) from error
    except OSError as error:
        raise _os_error(server, error, protocol, timeout) from error
    with closing(connection):
        try:
            _send_first_requests(connection, server, settings, protocol)
        except OSError as error:
            raise _os_error(server, error, protocol, timeout) from error


def _send_first_requests(
    connection: RawConnection, server: str, settings: Mapping[str, Any], protocol: str
) -> None:
    try:
        connection.send(ApiVersionsRequest[0]())
    except TimeoutError:
        connection.end_line()
        raise
    if protocol.startswith("SASL_"):
        _authenticate(connection, server, settings, protocol)
    # A listener that requires SASL closes a connection without it only at this request.
    connection.send(MetadataRequest[1](topics=[]))


def _authenticate(
    connection: RawConnection, server: str, settings: Mapping[str, Any], protocol: str
) -> None:
    """Authenticate as the client will. Raises CredentialsError with the broker's reason, which
    kafka-python loses when the broker closes the connection right after it."""
    name = settings["sasl_mechanism"]
    response = connection.send(SaslHandshakeRequest[1](mechanism=name))
    if response.error_code == _UNSUPPORTED_SASL_MECHANISM:
        raise CredentialsError(
            f"{server} does not support the SASL mechanism {name}: set sasl.mechanism to one of "
            f"{', '.join(sorted(response.mechanisms))}"
        )
    if response.error_code == _ILLEGAL_SASL_STATE:
        raise CredentialsError(
            f"{server} has no SASL on this listener: set security.protocol to "
            f"{protocol.removeprefix('SASL_')}, or use another port"
        )
    mechanism = get_sasl_mechanism(name)(host=server.rpartition(":")[0], **settings)
    while not mechanism.is_done():
        response = connection.send(SaslAuthenticateRequest[1](mechanism.auth_bytes()))
        if response.error_code:
            reason = one_line(response.error_message or "no reason given")
            raise CredentialsError(f"{server}: {_authentication_failed(reason)}")
        try:
            mechanism.receive(response.auth_bytes)
        except ValueError as error:
            raise CredentialsError(
                f"{server} did not prove that it has the password ({one_line(error)}): it may be "
                "an impostor, or sasl.mechanism may be wrong"
            ) from error


def _os_error(server: str, error: OSError, protocol: str, timeout: float) -> AdminError:
    """Return what an error of the socket means to the user."""
    match error:
        case NotKafkaError():
            if error.received.startswith((_TLS_ALERT, _TLS_HANDSHAKE)):
                return UnreachableError(
                    f"{server} requires TLS: set security.protocol to SSL or SASL_SSL in "
                    "--command-config"
                )
            return UnreachableError(f"the server at {server} is not Kafka: check the port")
        case socket.gaierror():
            host = server.rpartition(":")[0]
            return UnreachableError(f"unknown host {host!r}: check the name")
        case TimeoutError():
            return _SilentError(
                f"{server} did not respond within {timeout:.3g} s: check the address, and "
                "firewalls on the way"
            )
        case ConnectionRefusedError():
            return UnreachableError(
                f"{server} refused the connection: check host and port, and that the broker is "
                "running"
            )
        case ssl.SSLError() if (alert := _reason(error)) and "certificate" in alert:
            return _client_certificate_error(server, alert)
        case ConnectionError() | ssl.SSLError():
            if protocol in ("SSL", "SASL_SSL"):
                cause = "may require a client certificate or SASL, or may not use TLS"
            elif protocol == "PLAINTEXT":
                cause = "may require TLS or SASL"
            else:
                cause = "may require TLS"
            return UnreachableError(
                f"{server} closed the connection ({protocol}): the listener {cause}; set "
                "security.protocol and its settings in --command-config, or use another port"
            )
    return UnreachableError(
        f"{server} cannot be reached: {error.strerror or error}; check address and network"
    )


def _handshake_error(server: str, error: ssl.SSLError, protocol: str) -> AdminError:
    """Return what a failed TLS handshake means to the user."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message.rstrip(".")
        if "mismatch" in reason:
            return UnreachableError(
                f"the certificate of {server} is for another name ({reason}): use a name that is "
                "in it, or set ssl.endpoint.identification.algorithm to none"
            )
        return UnreachableError(
            f"the certificate of {server} is not trusted ({reason}): set ssl.ca.location or "
            "ssl.truststore.location to the authority that signed it"
        )
    reason = _reason(error)
    if "alert" in reason and "certificate" in reason:
        return _client_certificate_error(server, reason)
    if isinstance(error, ssl.SSLEOFError) or "version number" in reason or "record" in reason:
        plain = "SASL_PLAINTEXT" if protocol.startswith("SASL_") else "PLAINTEXT"
        return UnreachableError(
            f"{server} does not use TLS: set security.protocol to {plain}, or use the port of its "
            "TLS listener"
        )
    return UnreachableError(
        f"the TLS handshake with {server} failed ({reason}): it may require a client certificate "
        "(ssl.keystore.location), or other ssl.enabled.protocols or ssl.cipher.suites"
    )


def _client_certificate_error(server: str, reason: str) -> AdminError:
    return CredentialsError(
        f"{server} requires a client certificate that it trusts ({reason}): set "
        "ssl.certificate.location and ssl.key.location, or ssl.keystore.location"
    )


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()
