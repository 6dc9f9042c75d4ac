"""``rackward groups explain``: why groups read from other racks, and remedies."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated

import typer

from placement_core import InvalidOptionError
from rackward.cli import options
from rackward.cli.console import print_json, stderr, stdout
from rackward.cli.options import ClusterOptions
from rackward.cli.render.explanation import explanation_json, show_explanation
from rackward.cli.render.progress import step_reporter
from rackward.groups.explain import ExplainedGroup, check_explainable, explain_live_group
from rackward.groups.host_racks import HostRacks
from rackward.groups.readers import find_groups, list_matching_groups
from rackward.kafka import AdminConnection, read_state
from rackward.kafka.groups import CLASSIC, CONSUMER
from rackward.kafka.tolerant_reader import TolerantReader

EPILOG = """
\b
Examples:
  rackward groups explain billing
  rackward groups explain billing --mapping 10.0.1.0/24=az1,10.0.2.0/24=az2

A partition is off-rack if the rack that it is read from is known and is not that of the member that
reads it. That is its leader's or, if brokers have Kafka's RackAwareReplicaSelector and the member
joins with a rack, its own where a replica is in sync there; members of rackward's assignors always
read from leaders. Partitions that are not read in their member's rack are listed by reason:

\b
  too-many-leaders        the rack has more leaders than its members read if
                          balanced
  no-member-in-rack       no member is in the leader's rack
  not-subscribed-in-rack  the members there do not subscribe to the topic
  co-partitioned          (range) partition i of all topics goes to one
                          member, and those of others are led in its rack
  rackless-member         the member's rack is unknown: see --mapping
  not-optimal             another balanced assignment would read it locally
  no-leader, rackless-broker, replica-unknown (a follower, or the leader),
  unread: do not count as off-rack

"At best" is the optimum that rackward's assignor reaches with balanced loads, computed exactly. The
figure of a remedy is the optimum after this remedy alone and a rebalance. The group's max_imbalance
and weights are not known to this command; see docs/audit.md.

The group's leader is named if it is a process of rackward lead, whose members are not counted:
they read nothing. Brokers do not tell which one of the other members leads.

Remedies are those that the group's protocol permits. A classic group of another assignor can use
rackward's, or be led (rackward lead). For every group that has no regard to leaders, leaders can
move to the members that read them (leaders plan); a group of the new protocol has no other choice.

A group may use any client and must be stable. Nothing is changed. With a pattern, such as
'orders-*', the groups with the most off-rack partitions come first, and groups that cannot be
explained are named on stderr.

Exit status: 0 success; 2 error (reason on stderr), such as a named group that does not exist, has
no members, is rebalancing, or is not a group of consumers, and a pattern that matches none.

\b
JSON of one name: {schema_version: 1, command, GROUP};
 of several, or a pattern:
 {schema_version: 1, command, groups: [{GROUP}], skipped: [{group, reason}]}
GROUP: group, type, state, protocol, assignor (the group's own),
 reference_assignor (rackward's that balances alike),
 leader (member id if rackward lead leads the group, else null),
 waiting: [id] (its members that wait to lead),
 partitions, local, off_rack, unknown, unread, optimum, uneven,
 read_from_followers (in another rack than the leader's),
 racks: [{rack, leaders, members, reads, local}],
 members: [{id, instance_id, client_id, host, rack, partitions, local}],
 findings: [{reason, off_rack, why, rack, count, led, members_there, load,
             local, members: [id], partitions: {topic: [number]},
             better: [{topic, partition, member}],
             remedies: [{kind, text, off_rack_after, rack, count, members,
                         topics, brokers, without_replica,
                         moves: [{rack, partitions: {topic: [number]}}]}]}]
"""


def explain(
    groups: Annotated[
        list[str],
        typer.Argument(metavar="GROUP...", help="Consumer groups; * matches any characters."),
    ],
    mapping: options.RackMapping = None,
    as_json: options.Json = False,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Explain why partitions of groups are read from other racks, and list remedies.

    Shows the locality of each group now and at best, then its off-rack partitions by reason.
    """
    host_racks = HostRacks.parse_option("--mapping", mapping)
    single = len(groups) == 1 and "*" not in groups[0]
    explained: list[ExplainedGroup] = []
    skipped: dict[str, str] = {}
    with (
        step_reporter(stderr()) as progress,
        ClusterOptions(bootstrap_server, command_config, timeout).connect() as admin,
    ):
        brokers = read_state(admin, (), reassignments=False).view.racks()
        names, optional = _match(admin, brokers, groups)
        found = find_groups(admin, brokers, names)
        reader = TolerantReader(admin)
        selectors = reader.replica_selectors(sorted(brokers))
        for number, name in enumerate(names):
            progress(f"Explaining groups: {number:,} of {len(names):,}")
            try:
                live = check_explainable(name, found.get(name))
            except InvalidOptionError as error:
                if name not in optional:
                    raise
                skipped[name] = str(error)
            else:
                explained.append(explain_live_group(admin, live, host_racks, selectors))
    explained.sort(key=lambda each: (-each.explanation.off_rack, each.group.id))
    if as_json:
        fields = [explanation_json(each) for each in explained]
        print_json(
            "groups explain",
            fields[0]
            if single
            else {
                "groups": fields,
                "skipped": [{"group": name, "reason": text} for name, text in skipped.items()],
            },
        )
        return
    console = stdout()
    for number, each in enumerate(explained):
        if number:
            console.print()
        show_explanation(each, console, mapping)
    for reason in skipped.values():
        stderr().print(f"Not explained: {reason}", style="yellow")
    for fault in reader.faults:
        stderr().print(f"Assumed that consumers read from leaders: {fault}", style="yellow")


def _match(
    admin: AdminConnection, brokers: Collection[int], groups: Sequence[str]
) -> tuple[list[str], frozenset[str]]:
    """Return the names of the groups, sorted, and those that only a pattern matches.

    Raises InvalidOptionError if a pattern matches none, and AdminError.
    """
    exact = {each for each in groups if "*" not in each}
    matched: set[str] = set()
    for pattern in sorted(set(groups) - exact):
        listed = list_matching_groups(admin, brokers, [pattern], (CLASSIC, CONSUMER))
        if not listed:
            raise InvalidOptionError(
                f"group {pattern}: no group matches it, or this user may not describe any: see "
                "rackward groups list"
            )
        matched.update(each.id for each in listed)
    return sorted(exact | matched), frozenset(matched - exact)
