"""An SSLContext out of what the properties say."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from assignors.client_properties.certificates import Source, Tls
from assignors.client_properties.errors import ConnectionPropertyError
from assignors.client_properties.secret import Secret
from assignors.client_properties.stores import identity, read_file

_VERSIONS = {
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
        context.minimum_version = _VERSIONS[tls.versions[0]]
        context.maximum_version = _VERSIONS[tls.versions[-1]]
    context.verify_mode = ssl.CERT_REQUIRED if tls.verify else ssl.CERT_NONE
    _trust(context, tls.trust)
    if tls.crl is not None:
        with _told("ssl.crl.location", tls.crl):
            context.load_verify_locations(Path(tls.crl).expanduser())
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if tls.certificate is not None:
        _prove(context, tls.certificate, tls.key)
    if tls.ciphers is not None:
        with _told("ssl.cipher.suites", tls.ciphers):
            context.set_ciphers(tls.ciphers)


def _trust(context: ssl.SSLContext, trust: Source | None) -> None:
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
