"""``rackward groups explain``: why a group reads from other racks, and remedies."""

from __future__ import annotations

from typing import Annotated

import typer

from rackward.admin import read_state
from rackward.cli import options
from rackward.cli.console import print_json, stdout
from rackward.cli.options import ClusterOptions
from rackward.cli.render.explanation import explanation_json, show_explanation
from rackward.group_explanation import check_explainable, explain_live_group
from rackward.group_readers import find_groups
from rackward.host_racks import HostRacks

EPILOG = """
\b
Examples:
  rackward groups explain billing
  rackward groups explain billing --mapping 10.0.1.0/24=az1,10.0.2.0/24=az2

A partition is off-rack if the rack of its leader is known and is not the rack of the member that
reads it. Partitions that are not read in their leader's rack are listed by reason:

\b
  too-many-leaders        the rack has more leaders than its members read if
                          balanced
  no-member-in-rack       no member is in the leader's rack
  not-subscribed-in-rack  the members there do not subscribe to the topic
  co-partitioned          (range) partition i of all topics goes to one
                          member, and those of others are led in its rack
  rackless-member         the member's rack is unknown: see --mapping
  not-optimal             another balanced assignment would read it locally
  no-leader, rackless-broker, unread: do not count as off-rack

"At best" is the optimum that rackward's assignor reaches with balanced loads, computed exactly. The
figure of a remedy is the optimum after this remedy alone and a rebalance. The group's max_imbalance
and weights are not known to this command; see docs/operating.md.

The group's leader is named if it is a process of rackward lead, whose members are not counted:
they read nothing. Brokers do not tell which one of the other members leads.

Remedies are those that the group's protocol permits. A classic group of another assignor can use
rackward's, or be led (rackward lead). For every group that has no regard to leaders, leaders can
move to the members that read them (leaders plan); a group of the new protocol has no other choice.

The group may use any client and must be stable. Nothing is changed.

Exit status: 0 success; 2 error (reason on stderr), such as a group that does not exist, has no
members, is rebalancing, or is not a group of consumers.

\b
JSON: {schema_version: 1, command, group, type, state, protocol, assignor (the
 group's own), reference_assignor (rackward's that balances alike),
 leader (member id if rackward lead leads the group, else null),
 waiting: [id] (its members that wait to lead),
 partitions, local, off_rack, unknown, unread, optimum, uneven,
 racks: [{rack, leaders, members, reads, local}],
 members: [{id, instance_id, client_id, host, rack, partitions, local}],
 findings: [{reason, off_rack, why, rack, count, led, members_there, load,
             local, members: [id], partitions: {topic: [number]},
             better: [{topic, partition, member}],
             remedies: [{kind, text, off_rack_after, rack, count, members,
                         topics, brokers, without_replica,
                         moves: [{rack, partitions: {topic: [number]}}]}]}]}
"""


def explain(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="Name of the consumer group.")],
    mapping: options.RackMapping = None,
    as_json: options.Json = False,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Explain why partitions of a group are read from other racks, and list remedies.

    Shows the locality of the group now and at best, then its off-rack partitions by reason.
    """
    host_racks = HostRacks.parse_option("--mapping", mapping)
    with ClusterOptions(bootstrap_server, command_config, timeout).connect() as admin:
        brokers = read_state(admin, (), reassignments=False).view.racks()
        live = check_explainable(group, find_groups(admin, brokers, [group]).get(group))
        explained = explain_live_group(admin, live, host_racks)
    if as_json:
        print_json("groups explain", explanation_json(explained))
    else:
        show_explanation(explained, stdout(), mapping)
