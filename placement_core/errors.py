"""The errors that rackward raises, with the offending values on them."""

from __future__ import annotations


class RackwardError(Exception):
    """Root of every error that rackward raises on purpose.

    The message is one line: what was wrong, with the values, and what to do.
    """


class InvalidGroupError(RackwardError):
    """The members handed to an assignor do not form a group (two of one id, say)."""


class InvalidOptionError(RackwardError, ValueError):
    """An option of an assignor, a placer or a tool is out of its range."""


class InvalidLayoutError(RackwardError, ValueError):
    """A layout, or the text of one, is not of the form that it has to have."""
