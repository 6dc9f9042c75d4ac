"""Text of somebody else's, made fit for a line of a log."""

from __future__ import annotations

from collections.abc import Sequence


def shown(text: str, most: int = 64) -> str:
    """``text`` with what cannot be printed escaped, and no longer than ``most`` characters.

    A rack or a name that a peer sends may hold line breaks, or be 32 KB long.
    """
    cut = text[: most + 1]
    plain = cut if cut.isprintable() else cut.encode("unicode_escape").decode()
    return plain if len(plain) <= most else f"{plain[: most - 3]}..."


def some(names: Sequence[object], most: int = 10) -> str:
    """The first ``most`` of ``names``, each as :func:`shown`, and how many more there are."""
    told = ", ".join(shown(str(name)) for name in names[:most])
    return told if len(names) <= most else f"{told} and {len(names) - most} more"
