"""TLS in which both sides prove who they are."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass

from assignors.connection import ConnectionPropertyError
from assignors.connection.tls import Source, Tls, server_tls_context, tls_context

_PASSWORD = "ssl.key.password"


@dataclass(frozen=True, slots=True)
class MutualTls:
    """PEM files, of a server or of a client.

    ``ca_file``: the authorities that may have signed the other side's certificate (or a folder
    of them). ``cert_file``: one's own certificate, with those between it and its authority.
    ``key_file``: its key, without a password; None where it is in ``cert_file``.
    """

    ca_file: str
    cert_file: str
    key_file: str | None = None

    def server_context(self) -> ssl.SSLContext:
        """TLS 1.2 or later, and no client without a certificate that is trusted.

        Raises ConnectionPropertyError, which names the file that cannot be used.
        """
        return self._context(server_tls_context)

    def client_context(self) -> ssl.SSLContext:
        """TLS 1.2 or later, the server's certificate and name checked.

        Raises ConnectionPropertyError, which names the file that cannot be used.
        """
        return self._context(tls_context)

    def _context(self, make: Callable[[Tls], ssl.SSLContext]) -> ssl.SSLContext:
        tls = Tls(
            trust=Source("ca_file", path=self.ca_file),
            certificate=Source("cert_file", path=self.cert_file),
            key=None if self.key_file is None else Source("key_file", path=self.key_file),
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
            # It would advise a property that nobody can set here.
            raise ConnectionPropertyError(
                "cert_file" if self.key_file is None else "key_file",
                "its key is encrypted: give one without a password, in a file that only the "
                "service can read",
            ) from error
