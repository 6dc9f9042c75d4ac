"""What a client trusts and how it proves itself, by TLS."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from assignors.client_properties.errors import ConnectionPropertyError
from assignors.client_properties.reading import Reading
from assignors.client_properties.secret import Secret
from assignors.client_properties.stores import (
    StoreKind,
    read_file,
    store_kind,
    trusted_certificates,
)

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
