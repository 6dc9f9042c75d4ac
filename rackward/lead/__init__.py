"""Leading the consumer groups of other clients: assigning by rack for members of any language."""

from rackward.lead.leader import GroupLeader, list_matched, match_groups
from rackward.lead.led_group import STATES, LeadOptions, LeadStatus
from rackward.lead.protocols import (
    DEFAULT_PROTOCOLS,
    NO_WAITING,
    PROTOCOL_STRATEGIES,
    ProtocolStrategy,
    parse_protocols,
    why_refused,
)
from rackward.lead.take_over import TakeOver, TakeOverPolicy, removed_with_leader
from rackward.lead.workers import Workers

__all__ = [
    "DEFAULT_PROTOCOLS",
    "NO_WAITING",
    "PROTOCOL_STRATEGIES",
    "STATES",
    "GroupLeader",
    "LeadOptions",
    "LeadStatus",
    "ProtocolStrategy",
    "TakeOver",
    "TakeOverPolicy",
    "Workers",
    "list_matched",
    "match_groups",
    "parse_protocols",
    "removed_with_leader",
    "why_refused",
]
