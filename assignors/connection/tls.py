"""What a client trusts and how it proves itself, by TLS."""

from __future__ import annotations

import os
import secrets
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from assignors.connection.properties import ConnectionPropertyError, Reading, Secret

# ---- Key stores and trust stores: which kind a file is, and PKCS#12 as PEM.
#
# Java's own format (JKS) cannot be read without Java; an error gives the command that converts
# one. The kind is told by the file's first bytes, as Java does for JKS and PKCS#12, whose names
# people mix up.

_JAVA_MAGIC = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_PEM_MARK = b"-----BEGIN "
_DER_SEQUENCE = b"\x30"


class StoreKind(Enum):
    """The formats that can be read."""

    PEM = "PEM"
    PKCS12 = "PKCS12"


@dataclass(frozen=True, slots=True)
class Identity:
    """A client's certificate chain, the client's own first, and its private key, as PEM."""

    certificates: str
    key: Secret
    key_password: Secret | None


def read_file(name: str, path: str) -> bytes:
    """The bytes of the file that the property ``name`` points to."""
    try:
        return Path(path).expanduser().read_bytes()
    except OSError as error:
        raise ConnectionPropertyError(
            name, f"the file {path!r} cannot be read: {error.strerror or error}"
        ) from error


def store_kind(name: str, path: str, content: bytes) -> StoreKind:
    """PEM or PKCS#12. Raises ConnectionPropertyError for JKS and for anything else."""
    if _PEM_MARK in content:
        return StoreKind.PEM
    if content.startswith(_JAVA_MAGIC):
        raise ConnectionPropertyError(
            name,
            f"{path!r} is a Java key store (JKS), which only Java reads; convert it: keytool "
            f"-importkeystore -srckeystore {path} -destkeystore {path}.p12 "
            "-deststoretype PKCS12, and name the new file",
        )
    if content.startswith(_DER_SEQUENCE):
        return StoreKind.PKCS12
    raise ConnectionPropertyError(name, f"{path!r} is neither PEM nor PKCS#12: name such a file")


def trusted_certificates(name: str, path: str, content: bytes, password: str | None) -> str:
    """All certificates of a PKCS#12 store, as PEM. Raises ConnectionPropertyError."""
    store, serialization = _opened(name, path, content, password)
    found = [each.certificate for each in (store.cert, *store.additional_certs) if each is not None]
    if not found:
        raise ConnectionPropertyError(name, f"{path!r} holds no certificate")
    return "".join(each.public_bytes(serialization.Encoding.PEM).decode() for each in found)


def identity(name: str, path: str, content: bytes, password: str | None) -> Identity:
    """The key of a PKCS#12 store and its certificates, as PEM. Raises ConnectionPropertyError.

    The key is encrypted with a password made for the occasion, because it may have to pass
    through a file.
    """
    store, serialization = _opened(name, path, content, password)
    if store.key is None or store.cert is None:
        raise ConnectionPropertyError(name, f"{path!r} holds no private key with a certificate")
    made = secrets.token_urlsafe(32)
    chain = [store.cert.certificate, *(each.certificate for each in store.additional_certs)]
    key = store.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(made.encode()),
    )
    return Identity(
        "".join(each.public_bytes(serialization.Encoding.PEM).decode() for each in chain),
        Secret(key.decode()),
        Secret(made),
    )


def _opened(name: str, path: str, content: bytes, password: str | None) -> tuple[Any, Any]:
    """The store and the serialization module of ``cryptography``, which is asked for late."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError as error:
        raise ConnectionPropertyError(
            name, "PKCS#12 stores need the package cryptography: pip install cryptography"
        ) from error
    try:
        return pkcs12.load_pkcs12(content, None if password is None else password.encode()), (
            serialization
        )
    except ValueError as error:
        raise ConnectionPropertyError(
            name, f"{path!r} cannot be opened: its password is missing or wrong, or it is damaged"
        ) from error


PROBE = "probe"
"""librdkafka's word for "look where certificates usually are"."""

_STORE_TYPES = ("JKS", "PKCS12", "PEM")
_VERSIONS = ("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")


@dataclass(frozen=True, slots=True)
class Source:
    """PEM, or a PKCS#12 store where ``pkcs12``: in ``path``, or else as ``text``.

    ``name`` is the property that said so. A path may be a folder of CA certificates.
    """

    name: str
    path: str | None = None
    text: Secret | None = None
    pkcs12: bool = False
    password: Secret | None = None


@dataclass(frozen=True, slots=True)
class Tls:
    """``trust`` None: what the system trusts. ``key`` None: in the source of ``certificate``.

    ``versions``: the TLS versions allowed, None for the client's default.
    """

    trust: Source | None
    certificate: Source | None
    key: Source | None
    verify: bool
    check_host: bool
    ciphers: str | None
    crl: str | None
    versions: tuple[str, ...] | None


def read_tls(reading: Reading) -> Tls:
    """TLS as the properties say, in Java's words or librdkafka's; files are looked at.

    Raises ConnectionPropertyError for files that are missing or of a kind that cannot be read,
    and for values that mean nothing.
    """
    for name in ("ssl.truststore.type", "ssl.keystore.type"):
        reading.choice(name, _STORE_TYPES)
    certificate, key = _identity(reading)
    verify = reading.truth("enable.ssl.certificate.verification")
    crl = reading.text("ssl.crl.location")
    if crl is not None:
        read_file("ssl.crl.location", crl)
    return Tls(
        trust=_trust(reading),
        certificate=certificate,
        key=key,
        verify=verify is not False,
        check_host=_checks_host(reading),
        ciphers=_ciphers(reading),
        crl=crl,
        versions=_versions(reading),
    )


def _trust(reading: Reading) -> Source | None:
    if text := reading.secret("ssl.ca.pem"):
        return Source("ssl.ca.pem", text=text)
    if text := reading.secret("ssl.truststore.certificates"):
        return Source("ssl.truststore.certificates", text=text)
    name = reading.name("ssl.ca.location", "ssl.truststore.location")
    path = reading.text("ssl.ca.location", "ssl.truststore.location")
    if name is None or path is None or path == PROBE:
        return None
    if name == "ssl.ca.location" and Path(path).expanduser().is_dir():
        return Source(name, path=path)
    content = read_file(name, path)
    if store_kind(name, path, content) is StoreKind.PEM:
        return Source(name, path=path)
    password = reading.secret("ssl.truststore.password")
    pem = trusted_certificates(name, path, content, password)
    return Source(name, text=Secret(pem))


def _identity(reading: Reading) -> tuple[Source | None, Source | None]:
    """The certificate, and the key where it is elsewhere."""
    password = reading.secret("ssl.key.password")
    store = reading.text("ssl.keystore.location")
    if store is not None:
        name = "ssl.keystore.location"
        if store_kind(name, store, read_file(name, store)) is StoreKind.PEM:
            return Source(name, path=store, password=password), None
        opens = reading.secret("ssl.keystore.password")
        return Source(name, path=store, pkcs12=True, password=opens), None
    certificate = _one_of(
        reading, None, "ssl.certificate.location", "ssl.certificate.pem"
    ) or _one_of(reading, None, None, "ssl.keystore.certificate.chain")
    key = _one_of(reading, password, "ssl.key.location", "ssl.key.pem") or _one_of(
        reading, password, None, "ssl.keystore.key"
    )
    if certificate is None and key is not None:
        raise ConnectionPropertyError(key.name, "it is a key without a certificate: give both")
    if certificate is not None and key is None:
        raise ConnectionPropertyError(
            certificate.name, "it is a certificate without a key: give both"
        )
    return certificate, key


def _one_of(
    reading: Reading, password: Secret | None, file: str | None, inline: str
) -> Source | None:
    path = None if file is None else reading.text(file)
    if file is not None and path is not None:
        if store_kind(file, path, read_file(file, path)) is not StoreKind.PEM:
            raise ConnectionPropertyError(file, f"{path!r} is not PEM: name a PEM file")
        return Source(file, path=path, password=password)
    text = reading.secret(inline)
    return None if text is None else Source(inline, text=text, password=password)


def _checks_host(reading: Reading) -> bool:
    """Java turns the check off by an empty value, librdkafka by ``none``."""
    name = "ssl.endpoint.identification.algorithm"
    if reading.said(name) and reading.text(name) is None:
        return False
    return reading.choice(name, ("https", "none")) != "none"


def _ciphers(reading: Reading) -> str | None:
    name = "ssl.cipher.suites"
    text = reading.text(name)
    if text is not None and ("," in text or "_WITH_" in text):
        raise ConnectionPropertyError(
            name, "these are Java's names: write OpenSSL's, separated by colons (openssl ciphers)"
        )
    return text


def _versions(reading: Reading) -> tuple[str, ...] | None:
    """The range of versions that ``ssl.enabled.protocols`` spans."""
    name = "ssl.enabled.protocols"
    text = reading.text(name)
    if text is None:
        return None
    given = {each.strip() for each in text.split(",") if each.strip()}
    if unknown := sorted(given.difference(_VERSIONS)):
        raise ConnectionPropertyError(
            name, f"{', '.join(unknown)}: choose from {', '.join(_VERSIONS)}"
        )
    return tuple(version for version in _VERSIONS if version in given)


# ---- An SSLContext out of what the properties say.

_TLS_VERSIONS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}


def tls_context(tls: Tls) -> ssl.SSLContext:
    """TLS 1.2 or later, the broker's certificate and name checked, unless told otherwise.

    Raises ConnectionPropertyError where certificates, keys or ciphers cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.verify and tls.check_host
    _set_up(context, tls)
    return context


def server_tls_context(tls: Tls) -> ssl.SSLContext:
    """The same for a server of ours, whose clients have to prove who they are where
    ``tls.verify``; their names are not looked at.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_up(context, tls)
    return context


def _set_up(context: ssl.SSLContext, tls: Tls) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.versions:
        context.minimum_version = _TLS_VERSIONS[tls.versions[0]]
        context.maximum_version = _TLS_VERSIONS[tls.versions[-1]]
    context.verify_mode = ssl.CERT_REQUIRED if tls.verify else ssl.CERT_NONE
    _load_trust(context, tls.trust)
    if tls.crl is not None:
        with _told("ssl.crl.location", tls.crl):
            context.load_verify_locations(Path(tls.crl).expanduser())
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if tls.certificate is not None:
        _prove(context, tls.certificate, tls.key)
    if tls.ciphers is not None:
        with _told("ssl.cipher.suites", tls.ciphers):
            context.set_ciphers(tls.ciphers)


def _load_trust(context: ssl.SSLContext, trust: Source | None) -> None:
    if trust is None:
        context.load_default_certs()
        return
    with _told(trust.name, trust.path):
        if trust.path is None:
            context.load_verify_locations(cadata=str(trust.text))
        elif (path := Path(trust.path).expanduser()).is_dir():
            context.load_verify_locations(capath=path)
        else:
            context.load_verify_locations(cafile=path)


def _prove(context: ssl.SSLContext, certificate: Source, key: Source | None) -> None:
    holder = key or certificate
    password = holder.password
    if certificate.pkcs12 and certificate.path is not None:
        content = read_file(certificate.name, certificate.path)
        made = identity(certificate.name, certificate.path, content, certificate.password)
        certificate = Source(certificate.name, text=Secret(made.certificates + made.key))
        key, password = None, made.key_password

    def asked() -> str:
        # Without this OpenSSL would ask at the terminal.
        if password is None:
            raise ConnectionPropertyError(
                "ssl.key.password", f"the key of {holder.name} is encrypted: give its password"
            )
        return password

    with _told(holder.name, holder.path), _file(certificate) as chain, _file(key) as separate:
        assert chain is not None
        context.load_cert_chain(chain, separate, asked)


@contextmanager
def _file(source: Source | None) -> Iterator[str | None]:
    """The path of a source; a text gets a file that only this user can read, for a moment.

    Python's ssl takes a client's own certificate from files alone.
    """
    if source is None:
        yield None
    elif source.path is not None:
        yield str(Path(source.path).expanduser())
    else:
        handle, path = tempfile.mkstemp(prefix="rackward-", suffix=".pem")
        try:
            with os.fdopen(handle, "w") as file:
                file.write(str(source.text))
            yield path
        finally:
            os.unlink(path)


@contextmanager
def _told(name: str, path: str | None) -> Iterator[None]:
    try:
        yield
    except (ssl.SSLError, OSError, ValueError) as error:
        if isinstance(error, ConnectionPropertyError):
            raise
        where = f"{path!r} " if path else ""
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None)
        told = str(reason or type(error).__name__).replace("_", " ").lower()
        raise ConnectionPropertyError(
            name,
            f"{where}cannot be used ({told}): it should be sound PEM, its key should fit the "
            "certificate, and its password the key",
        ) from error
