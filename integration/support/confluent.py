"""The two consumers whose behaviour is compared, and what makes and reads them in tests."""

from __future__ import annotations

import datetime
import ipaddress
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import confluent_kafka
from confluent_kafka import TopicPartition
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import assignors.confluent
from integration.support.clients import Place
from tests.support.waiting import PATIENCE


@dataclass(frozen=True)
class Variant:
    """A Consumer class, and its assignors' names."""

    name: str
    consumer: Callable[..., Any]
    eager: str
    cooperative: str

    def __str__(self) -> str:
        return self.name


CONFLUENT = Variant("confluent", confluent_kafka.Consumer, "range", "cooperative-sticky")
RACKWARD = Variant(
    "rackward",
    assignors.confluent.Consumer,
    "leader-rack-aware-range",
    "leader-rack-aware-cooperative-sticky",
)

VARIANTS = {variant.name: variant for variant in (CONFLUENT, RACKWARD)}


class Consumers:
    """Makes consumers of one variant on one cluster, and closes them all in the end."""

    def __init__(self, variant: Variant, bootstrap: str) -> None:
        self.variant = variant
        self._bootstrap = bootstrap
        self._made: list[Any] = []

    def __call__(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        group: str | None = None,
        cooperative: bool = False,
    ) -> Any:
        """A consumer that starts at the earliest record, in ``group`` or in one of its own."""
        strategy = self.variant.cooperative if cooperative else self.variant.eager
        consumer = self.variant.consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": group or new_group(),
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": strategy,
                # Nobody is taken for dead because the machine stalls for a while, and who could
                # not say that it leaves is given up before a test's patience ends.
                "session.timeout.ms": 30_000,
                "heartbeat.interval.ms": 200,
                "fetch.wait.max.ms": 50,
                "client.rack": "a",
                "log_level": 0,
                **(settings or {}),
            }
        )
        self._made.append(consumer)
        return consumer

    def close(self) -> None:
        for consumer in self._made:
            consumer.close()


class Callbacks:
    """Rebalance callbacks that note themselves: ``subscribe(topics, **callbacks.all)``."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, set[Place]]] = []
        self.details: list[tuple[Any, list[TopicPartition], set[Place], int]] = []

    def named(self, kind: str) -> Callable[[Any, list[TopicPartition]], None]:
        def note(consumer: Any, partitions: list[TopicPartition]) -> None:
            self.calls.append((kind, places(partitions)))
            self.details.append(
                (consumer, partitions, places(consumer.assignment()), threading.get_ident())
            )

        return note

    @property
    def all(self) -> dict[str, Callable[[Any, list[TopicPartition]], None]]:
        return {f"on_{kind}": self.named(kind) for kind in ("assign", "revoke", "lost")}


def new_group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


def places(partitions: list[TopicPartition]) -> set[Place]:
    return {(each.topic, each.partition) for each in partitions}


def read(*consumers: Any, until: Callable[[list[Any]], object], what: str) -> list[Any]:
    """Poll the consumers in turn until what came, errors included, is enough; returns it."""
    deadline = time.monotonic() + PATIENCE
    found: list[Any] = []
    while not until(found):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {PATIENCE:g} s: {what}")
        for consumer in consumers:
            message = consumer.poll(0.05)
            if message is not None:
                found.append(message)
    return found


def read_records(consumer: Any, count: int) -> list[Any]:
    """Poll until there are so many records, and no error."""
    found: list[Any] = []
    deadline = time.monotonic() + PATIENCE
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records"
        message = consumer.poll(0.5)
        if message is not None:
            assert message.error() is None, message.error()
            found.append(message)
    return found


def where(messages: list[Any]) -> list[tuple[int, int]]:
    """Partition and offset of each, by partition and in the order of reading."""
    return sorted(
        ((each.partition(), each.offset()) for each in messages), key=lambda place: place[0]
    )


# ---- A certificate authority of a test's own, and what it signs for 127.0.0.1.

_HERE = ipaddress.ip_address("127.0.0.1")


@dataclass(frozen=True)
class Certificates:
    """PEM texts: the authority's certificate, a server's chain, and the server's key."""

    authority: str
    chain: str
    key: str


def certificates(now: datetime.datetime) -> Certificates:
    """A new authority and a server, valid from a day before ``now`` to a day after it."""
    authority, server = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root = _signed("authority", authority, "authority", authority, now, server=False)
    leaf = _signed("server", server, "authority", authority, now, server=True)
    key = server.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return Certificates(root, leaf + root, key.decode())


def _signed(
    subject: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    now: datetime.datetime,
    *,
    server: bool,
) -> str:
    day = datetime.timedelta(days=1)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.BasicConstraints(ca=not server, path_length=None), critical=True)
    )
    if server:
        names = x509.SubjectAlternativeName([x509.IPAddress(_HERE)])
        builder = builder.add_extension(names, critical=False)
    signed = builder.sign(issuer_key, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM).decode()


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
