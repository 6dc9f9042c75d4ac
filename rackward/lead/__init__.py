"""Leading the consumer groups of other clients: assigning by rack for members of any language."""

from rackward.lead.leader import SCAN_SECONDS, GroupLeader, match_groups
from rackward.lead.model import LeadOptions, LeadStatus
from rackward.lead.protocols import DEFAULT_PROTOCOLS, STRATEGIES, Strategy, parse_protocols
from rackward.lead.take_over import TakeOver, TakeOverPolicy

__all__ = [
    "DEFAULT_PROTOCOLS",
    "SCAN_SECONDS",
    "STRATEGIES",
    "GroupLeader",
    "LeadOptions",
    "LeadStatus",
    "Strategy",
    "TakeOver",
    "TakeOverPolicy",
    "match_groups",
    "parse_protocols",
]
