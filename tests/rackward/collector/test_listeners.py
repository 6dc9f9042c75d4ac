"""Listeners of brokers and their addresses."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from rackward.collector.snapshot import (
    LOOKUP_SECONDS,
    HostAddresses,
    Listener,
    broker_listeners,
    canonical_address,
)
from tests.support.waiting import Clock


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ({}, [Listener(None, "h", 9092)]),
        (
            {
                "advertised.listeners": "IN://h:9092, OUT://[2001:db8::1]:9093,CTL://h:9094",
                "listeners": "IN://:1",
                "controller.listener.names": "CTL",
            },
            [Listener("IN", "h", 9092), Listener("OUT", "2001:db8::1", 9093)],
        ),
        # Without advertised listeners, clients connect to those that the broker is bound to.
        ({"listeners": "PLAINTEXT://:9092"}, [Listener("PLAINTEXT", "h", 9092)]),
        # A proxy answers with another address.
        (
            {"advertised.listeners": "IN://b:1"},
            [Listener("IN", "b", 1), Listener(None, "h", 9092)],
        ),
    ],
)
def test_listeners_of_a_broker(configs: dict[str, str], expected: list[Listener]) -> None:
    assert broker_listeners(configs, "h", 9092) == expected


def test_an_address_is_looked_up_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[list[str]] = [["10.0.0.2", "10.0.0.1"], []]

    def getaddrinfo(host: str, *_: Any, **__: Any) -> list[Any]:
        assert host == "b"
        if not (found := answers.pop(0)):
            raise socket.gaierror
        return [(None, None, None, None, (address, 0)) for address in found]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    clock = Clock()
    addresses = HostAddresses(clock)
    assert addresses("b") == addresses("b") == ["10.0.0.1", "10.0.0.2"]
    clock.now += LOOKUP_SECONDS
    assert addresses("b") == addresses("b") == [None]


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("2001:db8:0:0:0:0:0:1%eth0", "2001:db8::1"),
        ("0:0:0:0:0:ffff:a00:1", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("client-7", "client-7"),
    ],
)
def test_addresses_have_one_form(host: str, expected: str) -> None:
    assert canonical_address(host) == expected
