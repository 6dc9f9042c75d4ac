"""``rackward groups explain``: why a group reads from other racks, and what would mend it."""

from __future__ import annotations

from typing import Annotated

import typer

from rackward.admin import read_state
from rackward.cli import options
from rackward.cli.connect import open_cluster
from rackward.cli.console import print_json, stdout
from rackward.cli.render.explanation import explanation_json, show_explanation
from rackward.group_explanation import check_explainable, explained, topics_read
from rackward.group_readers import find_groups, racks_of_members

EPILOG = """
A partition is off-rack where the rack of its leader is known and is not that of the member that
reads it. Every partition that is not read in its leader's rack is in one line, with the reason:

\b
  too-many-leaders        its rack leads more than the members there carry
  no-member-in-rack       nobody of the group is in its leader's rack
  not-subscribed-in-rack  those that are do not subscribe to its topic
  co-partitioned          (range) partition i of all topics goes to one member,
                          and those of other topics are led in its rack
  rackless-member         its member does not say where it is: see --mapping
  not-optimal             another assignment, as balanced, would read it locally
  no-leader, rackless-broker, unread: do not count as off-rack

"At best" is what rackward's assignor would reach in balance, proved and not estimated; and so is
what each remedy comes to when it alone is done and the group has rebalanced. What a group's own
max_imbalance or weights permit is not known here: its leader knows, see docs/operating.md.

Any client's group will do; nothing is changed. The group must be stable.

Exit status: 0 explained; 2 where there is no such group, or it has no members, is rebalancing,
or is not one of consumers, with the reason in one line.

\b
JSON: {schema_version: 1, command, group, type, state, protocol, assignor,
 partitions, local, off_rack, unknown, unread, optimum, uneven,
 racks: [{rack, leaders, members, reads, local}],
 members: [{id, instance_id, client_id, host, rack, partitions, local}],
 findings: [{reason, off_rack, why, rack, count, led, members_there, load, local,
             members: [id], partitions: {topic: [number]},
             better: [{topic, partition, member}],
             remedies: [{kind, text, off_rack_after, rack, count, members,
                         topics, brokers, without_replica,
                         moves: [{rack, partitions: {topic: [number]}}]}]}]}
"""


def explain(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group's name.")],
    mapping: options.RackMapping = None,
    as_json: options.Json = False,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Say why each off-rack partition of a group is off-rack, and what would mend it.

    How local the group is now and could be at best; then the partitions by reason, most first.
    """
    rack_of = racks_of_members("--mapping", mapping)
    with open_cluster(bootstrap_server, command_config, timeout) as admin:
        brokers = read_state(admin, (), ongoing=False).view.racks()
        live = check_explainable(group, find_groups(admin, brokers, [group]).get(group))
        view = read_state(admin, topics_read(live), ongoing=False).view
    found = explained(live, view, rack_of)
    if as_json:
        print_json("groups explain", explanation_json(found))
    else:
        show_explanation(found, stdout(), mapping)
