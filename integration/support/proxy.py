"""A SOCKS5 proxy on 127.0.0.1 that can be cut, as a network is: what is sent then arrives later."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from typing import Self


class Proxy:
    """Forwards TCP connections until it is cut; a context manager. ``url`` is its address."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"socks5://127.0.0.1:{self._server.getsockname()[1]}"
        self._forwards = threading.Event()
        self._forwards.set()
        self._closed = False
        self._sockets: list[socket.socket] = []
        self._start(self._accept)

    def cut(self) -> None:
        """Forward nothing. Connections stay open, and new ones get no answer."""
        self._forwards.clear()

    def mend(self) -> None:
        """Forward again, first what was sent meanwhile."""
        self._forwards.set()

    def _start(self, target: object, *arguments: object) -> None:
        threading.Thread(target=target, args=arguments, daemon=True).start()  # type: ignore[arg-type]

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                self._sockets.append(client)
                self._start(self._connect, client)

    def _connect(self, client: socket.socket) -> None:
        """Answer the handshake, which is RFC 1928 without authentication, and forward."""
        with suppress(OSError, struct.error):
            _, methods = client.recv(2)
            client.recv(methods)
            self._forwards.wait()
            client.sendall(b"\x05\x00")
            _, _, _, kind = client.recv(4)
            address = client.recv(4 if kind == 1 else client.recv(1)[0])
            host = socket.inet_ntoa(address) if kind == 1 else address.decode()
            (port,) = struct.unpack(">H", client.recv(2))
            server = socket.create_connection((host, port))
            self._sockets.append(server)
            client.sendall(b"\x05\x00\x00\x01" + bytes(6))
            self._start(self._forward, client, server)
            self._start(self._forward, server, client)

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self._forwards.wait()
                if self._closed:
                    return
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._closed = True
        self._server.close()
        self._forwards.set()
        for each in self._sockets:
            each.close()
