"""Mutual TLS: both sides authenticate with certificates."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass

from assignors.connection import ConnectionPropertyError
from assignors.connection.tls import KeyMaterial, TlsSettings, server_tls_context, tls_context

_PASSWORD = "ssl.key.password"


@dataclass(frozen=True, slots=True)
class MutualTls:
    """PEM files of a server or of a client.

    ca_file
        Authorities that sign the other side's certificate; may be a folder of files.
    cert_file
        This side's certificate, with intermediate certificates.
    key_file
        Its key, without a password; None if it is in ``cert_file``.
    """

    ca_file: str
    cert_file: str
    key_file: str | None = None

    def server_context(self) -> ssl.SSLContext:
        """Return a context for TLS 1.2 or later that requires trusted client certificates.

        Raises ConnectionPropertyError, which names the file that cannot be used.
        """
        return self._context(server_tls_context)

    def client_context(self) -> ssl.SSLContext:
        """Return a context for TLS 1.2 or later that verifies the server's certificate and name.

        Raises ConnectionPropertyError, which names the file that cannot be used.
        """
        return self._context(tls_context)

    def _context(self, make: Callable[[TlsSettings], ssl.SSLContext]) -> ssl.SSLContext:
        tls = TlsSettings(
            trust=KeyMaterial("ca_file", path=self.ca_file),
            certificate=KeyMaterial("cert_file", path=self.cert_file),
            key=None if self.key_file is None else KeyMaterial("key_file", path=self.key_file),
            verify=True,
            check_host=True,
            ciphers=None,
            crl=None,
            versions=None,
        )
        try:
            return make(tls)
        except ConnectionPropertyError as error:
            if error.name != _PASSWORD:
                raise
            # The error would advise a property that does not exist here.
            raise ConnectionPropertyError(
                "cert_file" if self.key_file is None else "key_file",
                "its key is encrypted: give one without a password, in a file that only the "
                "service can read",
            ) from error
