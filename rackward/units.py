"""Quantities as text (bytes, durations, counts, broker ids, names), addresses, patterns of
names, and deadlines."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from placement_core import InvalidOptionError
from rack_traffic.report.format import bytes_text as format_bytes

__all__ = [
    "Deadline",
    "format_brokers",
    "format_bytes",
    "format_count",
    "format_duration",
    "format_list",
    "matches_name",
    "parse_bytes",
    "parse_listen_address",
    "rackless_last",
]

_BYTES = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(?:([kmgtp])(i?)b?|b)?(/s)?", re.IGNORECASE)
_MAX_PORT = 65535
_EXPONENTS = {"k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


def matches_name(name: str, pattern: str) -> bool:
    """Return whether ``pattern`` is the name, or matches it: ``*`` any characters, ``?`` one."""
    return name == pattern or fnmatchcase(name, pattern)


def rackless_last(rack: str | None) -> tuple[bool, str]:
    """Return a sort key of racks: by name, with None last."""
    return rack is None, rack or ""


def parse_listen_address(text: str) -> tuple[str, int]:
    """Return the host and the port of ``HOST:PORT``; an IPv6 address may be in brackets.

    Raises ValueError.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > _MAX_PORT:
        raise ValueError("write HOST:PORT")
    return host.strip("[]"), int(port)


def parse_bytes(option: str, text: str, *, rate: bool = False) -> int:
    """Return the bytes that ``text`` stands for: ``50MB`` (10^6), ``50MiB`` (2^20), ``50000000``.

    With ``rate`` the text may end in ``/s``. Raises InvalidOptionError, which names ``option``,
    for other texts, less than 1 byte, and 2^63 bytes or more.
    """
    match = _BYTES.fullmatch(text.strip())
    if match is None or (match[4] and not rate):
        raise InvalidOptionError(
            f"{option} {text}: expected a number of bytes{' per second' if rate else ''}, such as "
            "50MB or 512KiB"
        )
    base = 1024 if match[3] else 1000
    count = float(match[1]) * float(base ** _EXPONENTS.get((match[2] or "").lower(), 0))
    if not 1 <= count < 2**63:
        raise InvalidOptionError(f"{option} {text}: give at least 1 byte, and less than 9 EB")
    return round(count)


def format_duration(seconds: float) -> str:
    """Return ``12 s``, ``3 min 20 s``, ``2 h 5 min`` or ``3 d 4 h``."""
    whole = round(seconds)
    for unit, size, smaller_size, smaller_unit in (
        ("d", 86_400, 3600, "h"),
        ("h", 3600, 60, "min"),
        ("min", 60, 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // smaller_size
            return f"{whole // size} {unit}" + (f" {rest} {smaller_unit}" if rest else "")
    return f"{whole} s"


def format_count(count: int, noun: str) -> str:
    """Return ``1 partition``, ``2,000 partitions``, ``1 copy`` or ``2 copies``."""
    if count == 1:
        return f"1 {noun}"
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {plural}"


def format_brokers(brokers: Iterable[int]) -> str:
    """Return ``broker 3``, ``brokers 3, 1, 2`` in the given order, or ``no brokers``."""
    ids = list(map(str, brokers))
    return f"broker{'' if len(ids) == 1 else 's'} {', '.join(ids)}" if ids else "no brokers"


def format_list(values: Sequence[object], limit: int = 5) -> str:
    """Return ``a, b, c``, or the first ``limit`` of the values and ``, ...``."""
    shown = ", ".join(map(str, values[:limit]))
    return f"{shown}, ..." if len(values) > limit else shown


@dataclass(frozen=True, slots=True)
class Deadline:
    """Expires ``seconds`` after it was created, on a monotonic ``clock``; see `after`."""

    seconds: float
    expires_at: float
    clock: Callable[[], float]

    @classmethod
    def after(cls, seconds: float, clock: Callable[[], float] = time.monotonic) -> Deadline:
        """Return the deadline ``seconds`` from now."""
        return cls(seconds, clock() + seconds, clock)

    @property
    def remaining(self) -> float:
        """Seconds left; 0 once it has expired."""
        return max(0.0, self.expires_at - self.clock())

    @property
    def remaining_ms(self) -> int:
        """Milliseconds left, at least 1, as the ``timeout_ms`` of Kafka's requests."""
        return max(1, int(self.remaining * 1000))
