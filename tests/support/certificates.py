"""Certificates for tests: a certificate authority, and certificates that it signs."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

Key = ec.EllipticCurvePrivateKey
PEM = serialization.Encoding.PEM
PKCS8 = serialization.PrivateFormat.PKCS8


@dataclass(frozen=True)
class Signed:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: Key

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        return self.key.private_bytes(PEM, PKCS8, _encryption(password)).decode()

    def pkcs12(self, password: str | None, *chain: Signed) -> bytes:
        return pkcs12.serialize_key_and_certificates(
            b"client",
            self.key,
            self.certificate,
            [each.certificate for each in chain],
            _encryption(password),
        )


@dataclass(frozen=True)
class Authority(Signed):
    """A certificate authority."""

    def sign(self, name: str, *, addresses: tuple[str, ...] = ("127.0.0.1",)) -> Signed:
        """Return a new certificate for the DNS name and the IP addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        names: list[x509.GeneralName] = [x509.DNSName(name)]
        names += [x509.IPAddress(ipaddress.ip_address(each)) for each in addresses]
        builder = _builder(name, self.certificate.subject, key, is_authority=False)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return Signed(builder.sign(self.key, hashes.SHA256()), key)


def make_authority(name: str = "test authority") -> Authority:
    """Return a new authority, valid from yesterday for a week."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(name, _name(name), key, is_authority=True)
    return Authority(builder.sign(key, hashes.SHA256()), key)


def trust_store(password: str, *trusted: Signed) -> bytes:
    """Return a PKCS#12 store that contains certificates only."""
    return pkcs12.serialize_java_truststore(
        [
            pkcs12.PKCS12Certificate(each.certificate, f"ca-{number}".encode())
            for number, each in enumerate(trusted)
        ],
        _encryption(password),
    )


def write_file(folder: Path, name: str, content: str | bytes) -> str:
    """Write a file in ``folder`` and return its path."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def _builder(
    name: str, issuer: x509.Name, key: Key, *, is_authority: bool
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=7))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _encryption(password: str | None) -> serialization.KeySerializationEncryption:
    if password is None:
        return serialization.NoEncryption()
    return serialization.BestAvailableEncryption(password.encode())
