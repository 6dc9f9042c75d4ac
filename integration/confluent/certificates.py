"""A certificate authority of a test's own, and what it signs for 127.0.0.1."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_HERE = ipaddress.ip_address("127.0.0.1")


@dataclass(frozen=True)
class Certificates:
    """PEM texts: the authority's certificate, a server's chain, and the server's key."""

    authority: str
    chain: str
    key: str


def certificates(now: datetime.datetime) -> Certificates:
    """A new authority and a server, valid from a day before ``now`` to a day after it."""
    authority, server = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root = _signed("authority", authority, "authority", authority, now, server=False)
    leaf = _signed("server", server, "authority", authority, now, server=True)
    key = server.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return Certificates(root, leaf + root, key.decode())


def _signed(
    subject: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    now: datetime.datetime,
    *,
    server: bool,
) -> str:
    day = datetime.timedelta(days=1)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.BasicConstraints(ca=not server, path_length=None), critical=True)
    )
    if server:
        names = x509.SubjectAlternativeName([x509.IPAddress(_HERE)])
        builder = builder.add_extension(names, critical=False)
    signed = builder.sign(issuer_key, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM).decode()


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
