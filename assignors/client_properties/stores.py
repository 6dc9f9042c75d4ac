"""Key stores and trust stores: which kind a file is, and PKCS#12 as PEM.

Java's own format (JKS) cannot be read without Java; an error gives the command that converts
one. The kind is told by the file's first bytes, as Java does for JKS and PKCS#12, whose names
people mix up.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from assignors.client_properties.errors import ConnectionPropertyError
from assignors.client_properties.secret import Secret

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
