"""Why a plan cannot be used."""

from __future__ import annotations

from placement_core import RackwardError


class PlanFileError(RackwardError, ValueError):
    """A plan file is not what it should be; the message names the file and the field."""


class StalePlanError(RackwardError):
    """The cluster is not, or no longer, the one that the plan was made against.

    ``changes`` has everything that was found, a line each; the message has the first.
    """

    def __init__(self, message: str, changes: tuple[str, ...] = ()) -> None:
        self.changes = changes
        super().__init__(message)
