"""What an assignor tells of the assignments that it made, whatever client it is for."""

from __future__ import annotations

from assignors.leading.assignment import Assignment
from assignors.leading.rebalance import Rebalance


class Remembering:
    """An assignor whose ``rebalance`` keeps records."""

    rebalance: Rebalance

    def last_assignment(self, group: str | None = None) -> Assignment | None:
        """The last assignment that this assignor made, of ``group`` or of any.

        None where no consumer that was given this has led its group so far.
        """
        return self.rebalance.records.last(group)

    def assignments(self) -> tuple[Assignment, ...]:
        """The last assignment of each group, for :mod:`assignors.metrics`."""
        return self.rebalance.records.all()
