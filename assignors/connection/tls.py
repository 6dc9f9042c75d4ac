"""TLS: which certificates a client trusts, and the certificate and key that it presents.

:func:`read_tls` reads the properties into :class:`TlsSettings`, with files checked, and
:func:`tls_context` makes an ``ssl.SSLContext`` of that. Certificates and keys may be PEM text, PEM
files or PKCS#12 stores. Java's own format (JKS) needs Java; the error has the command to convert
it. The format is determined by a file's first bytes, as in Java, and not by
``ssl.truststore.type``, which people get wrong.
"""

from __future__ import annotations

import os
import secrets
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assignors.connection.properties import ConnectionPropertyError, PropertyReader, Secret

PROBE = "probe"
"""librdkafka's value of ``ssl.ca.location`` for the operating system's usual locations."""

_TLS_VERSIONS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}


@dataclass(frozen=True, slots=True)
class KeyMaterial:
    """Certificates, a key, or both: PEM, or a PKCS#12 store if ``pkcs12``.

    It is in the file ``path``, or else in ``text``. A path may be a folder of CA certificates.
    ``name`` is the property that it comes from, for errors.
    """

    name: str
    path: str | None = None
    text: Secret | None = None
    pkcs12: bool = False
    password: Secret | None = None


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """How to make TLS connections.

    trust
        CA certificates; None: the operating system's.
    certificate, key
        The client's own; a None ``key`` is in the same place as ``certificate``.
    versions
        The TLS versions allowed, oldest first; None: the client's default.
    """

    trust: KeyMaterial | None
    certificate: KeyMaterial | None
    key: KeyMaterial | None
    verify: bool
    check_host: bool
    ciphers: str | None
    crl: str | None
    versions: tuple[str, ...] | None


def read_tls(reader: PropertyReader) -> TlsSettings:
    """Return the TLS settings that the properties give, by Java's names or librdkafka's.

    Raise ConnectionPropertyError for files that are missing or of an unsupported format, and for
    invalid values.
    """
    certificate, key = _read_certificate_and_key(reader)
    verify = reader.get_bool("enable.ssl.certificate.verification")
    crl = reader.get_str("ssl.crl.location")
    if crl is not None:
        _read_file("ssl.crl.location", crl)
    return TlsSettings(
        trust=_read_trust(reader),
        certificate=certificate,
        key=key,
        verify=verify is not False,
        check_host=_read_check_host(reader),
        ciphers=_read_ciphers(reader),
        crl=crl,
        versions=_read_versions(reader),
    )


def tls_context(tls: TlsSettings) -> ssl.SSLContext:
    """Return a client's context: TLS 1.2 or later and full verification unless set otherwise.

    Raise ConnectionPropertyError for certificates, keys or ciphers that cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.verify and tls.check_host
    _configure(context, tls)
    return context


def server_tls_context(tls: TlsSettings) -> ssl.SSLContext:
    """Return the same for a server. With ``tls.verify`` clients must present a certificate.

    Their host names are not checked. Raise ConnectionPropertyError as :func:`tls_context`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _configure(context, tls)
    return context


# ---- Reading the properties.


def _read_trust(reader: PropertyReader) -> KeyMaterial | None:
    inline = reader.first_set("ssl.ca.pem", "ssl.truststore.certificates")
    if inline is not None:
        return KeyMaterial(inline, text=reader.get_secret(inline))
    name = reader.first_set("ssl.ca.location", "ssl.truststore.location")
    path = None if name is None else reader.get_str(name)
    if name is None or path is None or path == PROBE:
        return None
    if name == "ssl.ca.location" and Path(path).expanduser().is_dir():
        return KeyMaterial(name, path=path)
    content = _read_file(name, path)
    if _is_pem(name, path, content):
        return KeyMaterial(name, path=path)
    password = reader.get_secret("ssl.truststore.password")
    return KeyMaterial(name, text=Secret(_truststore_pem(name, path, content, password)))


def _read_certificate_and_key(
    reader: PropertyReader,
) -> tuple[KeyMaterial | None, KeyMaterial | None]:
    """Return the client's certificate, and its key if that is in another place."""
    password = reader.get_secret("ssl.key.password")
    name = "ssl.keystore.location"
    store = reader.get_str(name)
    if store is not None:
        if _is_pem(name, store, _read_file(name, store)):
            return KeyMaterial(name, path=store, password=password), None
        store_password = reader.get_secret("ssl.keystore.password")
        return KeyMaterial(name, path=store, pkcs12=True, password=store_password), None
    certificate = _read_pem(
        reader,
        file="ssl.certificate.location",
        texts=("ssl.certificate.pem", "ssl.keystore.certificate.chain"),
    )
    key = _read_pem(
        reader,
        file="ssl.key.location",
        texts=("ssl.key.pem", "ssl.keystore.key"),
        password=password,
    )
    if certificate is None and key is not None:
        raise ConnectionPropertyError(key.name, "it is a key without a certificate: give both")
    if certificate is not None and key is None:
        raise ConnectionPropertyError(
            certificate.name, "it is a certificate without a key: give both"
        )
    return certificate, key


def _read_pem(
    reader: PropertyReader, *, file: str, texts: tuple[str, ...], password: Secret | None = None
) -> KeyMaterial | None:
    path = reader.get_str(file)
    if path is not None:
        if not _is_pem(file, path, _read_file(file, path)):
            raise ConnectionPropertyError(file, f"{path!r} is not PEM: give a PEM file")
        return KeyMaterial(file, path=path, password=password)
    name = reader.first_set(*texts)
    if name is None:
        return None
    return KeyMaterial(name, text=reader.get_secret(name), password=password)


def _read_check_host(reader: PropertyReader) -> bool:
    # Java turns the check off by an empty value, librdkafka by "none".
    name = "ssl.endpoint.identification.algorithm"
    if reader.is_present(name) and reader.get_str(name) is None:
        return False
    return reader.get_enum(name, ("https", "none")) != "none"


def _read_ciphers(reader: PropertyReader) -> str | None:
    name = "ssl.cipher.suites"
    text = reader.get_str(name)
    if text is not None and ("," in text or "_WITH_" in text):
        raise ConnectionPropertyError(
            name,
            "these are Java's cipher names: write OpenSSL's, separated by colons (see openssl"
            " ciphers)",
        )
    return text


def _read_versions(reader: PropertyReader) -> tuple[str, ...] | None:
    name = "ssl.enabled.protocols"
    text = reader.get_str(name)
    if text is None:
        return None
    enabled = {each.strip() for each in text.split(",") if each.strip()}
    if unknown := sorted(enabled.difference(_TLS_VERSIONS)):
        raise ConnectionPropertyError(
            name, f"{', '.join(unknown)} is not supported: choose from {', '.join(_TLS_VERSIONS)}"
        )
    return tuple(version for version in _TLS_VERSIONS if version in enabled)


# ---- Making an SSLContext.


def _configure(context: ssl.SSLContext, tls: TlsSettings) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.versions:
        context.minimum_version = _TLS_VERSIONS[tls.versions[0]]
        context.maximum_version = _TLS_VERSIONS[tls.versions[-1]]
    context.verify_mode = ssl.CERT_REQUIRED if tls.verify else ssl.CERT_NONE
    _load_trust(context, tls.trust)
    if tls.crl is not None:
        with _translate_errors("ssl.crl.location", tls.crl):
            context.load_verify_locations(Path(tls.crl).expanduser())
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if tls.certificate is not None:
        _load_certificate(context, tls.certificate, tls.key)
    if tls.ciphers is not None:
        with _translate_errors("ssl.cipher.suites", tls.ciphers, "see openssl ciphers"):
            context.set_ciphers(tls.ciphers)


def _load_trust(context: ssl.SSLContext, trust: KeyMaterial | None) -> None:
    if trust is None:
        context.load_default_certs()
        return
    with _translate_errors(trust.name, trust.path):
        if trust.path is None:
            context.load_verify_locations(cadata=str(trust.text))
        elif (path := Path(trust.path).expanduser()).is_dir():
            context.load_verify_locations(capath=path)
        else:
            context.load_verify_locations(cafile=path)


def _load_certificate(
    context: ssl.SSLContext, certificate: KeyMaterial, key: KeyMaterial | None
) -> None:
    key_source = key or certificate
    if certificate.pkcs12 and certificate.path is not None:
        certificate = _keystore_pem(certificate)
        password, key = certificate.password, None
    else:
        password = key_source.password

    def key_password() -> str:
        # Without this callback OpenSSL would prompt at the terminal.
        if password is None:
            raise ConnectionPropertyError(
                "ssl.key.password",
                f"the key of {key_source.name} is encrypted: give its password",
            )
        return password

    with (
        _translate_errors(key_source.name, key_source.path),
        _as_file(certificate) as certificate_file,
        _as_file(key) as key_file,
    ):
        assert certificate_file is not None
        context.load_cert_chain(certificate_file, key_file, key_password)


@contextmanager
def _as_file(material: KeyMaterial | None) -> Iterator[str | None]:
    """Yield the path of ``material``; text is in a file for this user alone until the block ends.

    Python's ssl reads a client's own certificate from files only.
    """
    if material is None:
        yield None
    elif material.path is not None:
        yield str(Path(material.path).expanduser())
    else:
        handle, path = tempfile.mkstemp(prefix="rackward-", suffix=".pem")
        try:
            with os.fdopen(handle, "w") as file:
                file.write(str(material.text))
            yield path
        finally:
            os.unlink(path)


_PEM_HINT = (
    "check that it is valid PEM, that the key belongs to the certificate, and that the password is"
    " the key's"
)


@contextmanager
def _translate_errors(name: str, value: str | None, hint: str = _PEM_HINT) -> Iterator[None]:
    """Raise errors of the block as ConnectionPropertyError of the property ``name``."""
    try:
        yield
    except (ssl.SSLError, OSError, ValueError) as error:
        if isinstance(error, ConnectionPropertyError):
            raise
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None)
        cause = str(reason or type(error).__name__).replace("_", " ").lower()
        raise ConnectionPropertyError(
            name, f"{f'{value!r} ' if value else ''}cannot be used ({cause}): {hint}"
        ) from error


# ---- Files and stores.


_JKS_MAGIC = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_PEM_MARKER = b"-----BEGIN "
_DER_SEQUENCE = b"\x30"


def _read_file(name: str, path: str) -> bytes:
    try:
        return Path(path).expanduser().read_bytes()
    except OSError as error:
        raise ConnectionPropertyError(
            name, f"the file {path!r} cannot be read: {error.strerror or error}"
        ) from error


def _is_pem(name: str, path: str, content: bytes) -> bool:
    """Return whether a file is PEM; False for PKCS#12. Raise ConnectionPropertyError for others."""
    if _PEM_MARKER in content:
        return True
    if content.startswith(_JKS_MAGIC):
        raise ConnectionPropertyError(
            name,
            f"{path!r} is a Java key store (JKS), which only Java can read; convert it with keytool"
            f" -importkeystore -srckeystore {path} -destkeystore {path}.p12"
            " -deststoretype PKCS12, and give the new file",
        )
    if content.startswith(_DER_SEQUENCE):
        return False
    raise ConnectionPropertyError(
        name, f"{path!r} is neither PEM nor PKCS#12: give a file in one of these formats"
    )


def _truststore_pem(name: str, path: str, content: bytes, password: str | None) -> str:
    """Return all certificates of a PKCS#12 store as PEM."""
    store = _load_pkcs12(name, path, content, password)
    entries = [entry for entry in (store.cert, *store.additional_certs) if entry is not None]
    if not entries:
        raise ConnectionPropertyError(name, f"{path!r} contains no certificate")
    return _pem(entries)


def _keystore_pem(store: KeyMaterial) -> KeyMaterial:
    """Return the certificates and the key of a PKCS#12 store as PEM text.

    The key is encrypted with a new random password, because it has to pass through a file.
    """
    path = str(store.path)
    pkcs12 = _load_pkcs12(store.name, path, _read_file(store.name, path), store.password)
    if pkcs12.key is None or pkcs12.cert is None:
        raise ConnectionPropertyError(
            store.name, f"{path!r} contains no private key with a certificate"
        )
    from cryptography.hazmat.primitives import serialization

    password = Secret(secrets.token_urlsafe(32))
    key = pkcs12.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password.encode()),
    )
    chain = _pem([pkcs12.cert, *pkcs12.additional_certs])
    return KeyMaterial(store.name, text=Secret(chain + key.decode()), password=password)


def _pem(entries: list[Any]) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return "".join(entry.certificate.public_bytes(Encoding.PEM).decode() for entry in entries)


def _load_pkcs12(name: str, path: str, content: bytes, password: str | None) -> Any:
    """Return the store, by the optional package ``cryptography``."""
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError as error:
        raise ConnectionPropertyError(
            name, "PKCS#12 stores need the package cryptography: pip install cryptography"
        ) from error
    try:
        return pkcs12.load_pkcs12(content, None if password is None else password.encode())
    except ValueError as error:
        raise ConnectionPropertyError(
            name,
            f"{path!r} cannot be opened: its password is missing or wrong, or the file is damaged",
        ) from error
