"""Why a broker cannot be talked to, found out before a client is let loose on it.

kafka-python tries again and again whatever is wrong, and then says that it took too long. A
connection of our own goes through the same steps (name, port, TLS, Kafka, SASL) and sees
where it ends.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping, Sequence
from typing import Any

from rackward.admin.deadline import Deadline
from rackward.admin.errors import AdminError, CredentialsError, UnreachableError
from rackward.admin.wire import Connection, NotKafkaError

STEP_SECONDS = 5.0
"""How long one server may take for one step, where the deadline leaves more."""

_TLS_ALERT, _TLS_HANDSHAKE = b"\x15\x03", b"\x16\x03"
_UNSUPPORTED_MECHANISM, _ILLEGAL_STATE = 33, 34


def first_that_answers(settings: Mapping[str, Any], deadline: Deadline) -> str:
    """The first of the bootstrap servers that can be talked to, as ``host:port``.

    ``settings`` are keywords of kafka-python. Raises an AdminError that says what is wrong
    with the first server where none can be.
    """
    servers: Sequence[str] = settings["bootstrap_servers"]
    faults: list[AdminError] = []
    for server in servers:
        if faults and not deadline.remaining:
            break
        try:
            _talk(server, settings, min(STEP_SECONDS, max(deadline.remaining, 0.05)))
        except AdminError as error:
            faults.append(error)
        else:
            return server
    first = faults[0]
    if len(servers) == 1:
        raise first
    raise type(first)(f"none of the {len(servers)} bootstrap servers can be used: {first}")


def _talk(server: str, settings: Mapping[str, Any], timeout: float) -> None:
    host, _, port = server.rpartition(":")
    host = host.strip("[]")
    context = settings.get("ssl_context")
    protocol = str(settings["security_protocol"])
    try:
        with Connection(host, int(port), timeout, context) as connection:
            _ask(connection, server, settings, protocol)
    except socket.gaierror as error:
        raise UnreachableError(f"the host name {host!r} is not known: check it") from error
    except ssl.SSLError as error:
        raise _tls_fault(server, error, protocol) from error
    except TimeoutError as error:
        raise UnreachableError(
            f"{server} does not answer within {timeout:g} s: check the address, and firewalls "
            "on the way"
        ) from error
    except ConnectionRefusedError as error:
        raise UnreachableError(
            f"nothing listens at {server}: check host and port, and that the broker is up"
        ) from error
    except NotKafkaError as error:
        raise _stranger(server, error.received) from error
    except ConnectionError as error:
        raise _hung_up(server, protocol) from error
    except OSError as error:
        raise UnreachableError(
            f"{server} cannot be reached: {error.strerror or error}; check address and network"
        ) from error


def _ask(connection: Connection, server: str, settings: Mapping[str, Any], protocol: str) -> None:
    from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
    from kafka.protocol.sasl import SaslHandshakeRequest

    connection.ask(ApiVersionsRequest[0]())
    if not protocol.startswith("SASL_"):
        # A broker that expects SASL hangs up here, and not before.
        connection.ask(MetadataRequest[1](topics=[]))
        return
    mechanism = settings["sasl_mechanism"]
    answer = connection.ask(SaslHandshakeRequest[1](mechanism=mechanism))
    if answer.error_code == _UNSUPPORTED_MECHANISM:
        raise CredentialsError(
            f"{server} does not take the SASL mechanism {mechanism}: set sasl.mechanism to one "
            f"of {', '.join(sorted(answer.mechanisms)) or 'those of another listener'}"
        )
    if answer.error_code == _ILLEGAL_STATE:
        raise CredentialsError(
            f"{server} does not ask who the client is (no SASL on this listener): set "
            f"security.protocol to {protocol.removeprefix('SASL_')}, or "
            "name another port"
        )


def _tls_fault(server: str, error: ssl.SSLError, protocol: str) -> AdminError:
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
    reason = (error.reason or "").replace("_", " ").lower()
    if "alert" in reason and ("certificate" in reason or "unknown ca" in reason):
        return CredentialsError(
            f"{server} asks for a client certificate that it trusts ({reason}): set "
            "ssl.certificate.location and ssl.key.location, or ssl.keystore.location"
        )
    if "wrong version number" in reason or "eof" in reason or "record layer" in reason:
        return _no_tls(server, protocol)
    return UnreachableError(
        f"{server} and this client agree on no TLS ({reason or error}): check "
        "ssl.enabled.protocols and ssl.cipher.suites"
    )


def _no_tls(server: str, protocol: str) -> AdminError:
    plain = "SASL_PLAINTEXT" if protocol.startswith("SASL_") else "PLAINTEXT"
    return UnreachableError(
        f"{server} does not speak TLS: set security.protocol to {plain}, or name the port of "
        "its TLS listener"
    )


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
