"""How groups are led, and what is reported of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from assignors.leader_moves import DEFAULT_REFRESH_POLICY, RefreshPolicy
from rackward.groups.host_racks import HostRacks
from rackward.lead.assigner import Figures
from rackward.lead.member import (
    Timeouts,
)
from rackward.lead.protocols import (
    DEFAULT_PROTOCOLS,
    Strategy,
)
from rackward.lead.take_over import (
    TakeOverPolicy,
)

JOINING, LEADING, REBALANCING = "joining", "leading", "rebalancing"
WAITING, OUTSIDE, REFUSED = "waiting", "outside", "refused"
STATES = (JOINING, LEADING, REBALANCING, WAITING, OUTSIDE, REFUSED)


@dataclass(frozen=True, slots=True)
class LeadOptions:
    """How groups are led.

    protocols
        The protocols that are answered, by name.
    host_racks
        Racks of members that do not send one, by client id, host or network.
    take_over
        How to become the leader of a group that has another one.
    refresh
        When leaders that moved justify a rebalance; None: never.
    timeouts
        Of the membership.
    time_limit
        Seconds for which a plan may be computed before a plain one is sent.
    """

    protocols: Mapping[str, Strategy] = field(default_factory=lambda: dict(DEFAULT_PROTOCOLS))
    host_racks: HostRacks = field(default_factory=HostRacks)
    take_over: TakeOverPolicy = field(default_factory=TakeOverPolicy)
    refresh: RefreshPolicy | None = DEFAULT_REFRESH_POLICY
    timeouts: Timeouts = field(default_factory=Timeouts)
    time_limit: float = 5.0


@dataclass(frozen=True, slots=True)
class LeadStatus:
    """A group as its leader sees it.

    state
        "joining", "leading", "rebalancing" (for longer than usual), "waiting" (a member, which does
        not lead), "outside" (no member, and the group is looked at from time to time) or "refused".
    reason
        Why the group is not led, in words; empty if it is.
    figures
        Of the last assignment that was made here.
    last_rebalance
        When it was made, in UTC; None: never.
    assignments
        How many were made here.
    take_overs, successful_take_overs
        How often members were removed to take the group over, and how often it was led after that.
    rebalancing_since
        When the rebalance began that has not ended, in UTC; None: none.
    """

    group: str
    state: str = JOINING
    reason: str = ""
    figures: Figures = field(default_factory=Figures)
    last_rebalance: datetime | None = None
    assignments: int = 0
    take_overs: int = 0
    successful_take_overs: int = 0
    rebalancing_since: datetime | None = field(default=None, compare=False)

    @property
    def leads(self) -> bool:
        """Whether the group's assignment is made here."""
        return self.state == LEADING

    @property
    def rebalancing_seconds(self) -> float:
        """The age of the rebalance that has not ended; 0 if there is none."""
        since = self.rebalancing_since
        return 0.0 if since is None else (datetime.now(UTC) - since).total_seconds()
