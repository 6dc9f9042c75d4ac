"""Bytes and seconds, as people write and read them."""

from __future__ import annotations

import re

from placement_core import InvalidOptionError

_TEXT = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(?:([kmgtp])(i?)b?|b)?(/s)?", re.IGNORECASE)
_STEPS = {"k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_NAMES = ("B", "kB", "MB", "GB", "TB", "PB")


def read_bytes(option: str, text: str, *, rate: bool = False) -> int:
    """``50MB`` (millions), ``50MiB`` (of 1024 times 1024), ``50000000`` as bytes, at least 1.

    With ``rate`` it may end in ``/s``. Raises InvalidOptionError, which names the option.
    """
    match = _TEXT.fullmatch(text.strip())
    if match is None or (match[4] and not rate):
        raise InvalidOptionError(
            f"{option} {text}: write a number of bytes{' per second' if rate else ''}, such as "
            "50MB or 512KiB"
        )
    base = 1024 if match[3] else 1000
    power = _STEPS.get((match[2] or "").lower(), 0)
    found = float(match[1]) * float(base**power)
    if not 1 <= found < 2**63:
        raise InvalidOptionError(f"{option} {text}: give at least 1 byte, and less than 9 EB")
    return round(found)


def bytes_text(count: float) -> str:
    """``1.2 GB``, in steps of a thousand."""
    name = _NAMES[0]
    for name in _NAMES:
        if count < 999.5 or name == _NAMES[-1]:
            break
        count /= 1000
    return f"{count:.0f} {name}" if name == "B" or count >= 99.95 else f"{count:.3g} {name}"


def seconds_text(seconds: float) -> str:
    """``12 s``, ``3 min 20 s``, ``2 h 5 min``, ``3 d 4 h``."""
    whole = round(seconds)
    for name, size, below, smaller in (
        ("d", 86_400, 3600, "h"),
        ("h", 3600, 60, "min"),
        ("min", 60, 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {name}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def count_text(count: int, name: str) -> str:
    """``1 partition``, ``2,000 partitions``, ``1 copy``, ``2 copies``."""
    if count == 1:
        return f"1 {name}"
    many = f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"
    return f"{count:,} {many}"
