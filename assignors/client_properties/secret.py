"""Texts that must not be seen."""

from __future__ import annotations


class Secret(str):
    """A password or a key: the text itself, but what prints or logs a structure shows none of it.

    kafka-python logs its whole configuration at DEBUG, and dataclasses and tracebacks show
    their fields: all of them through ``repr``.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"
