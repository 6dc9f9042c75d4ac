"""``rackward placement throttle``: the replication throttle that is in force, and its removal."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from rackward.cli.options import ClusterOptions, RunOptions
from rackward.cli.output import confirm, print_json, require_confirmation, table_console
from rackward.reassignment.throttle import (
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    ReplicationThrottle,
    ThrottleSettings,
)

EPILOG = """
\b
Examples:
  rackward placement throttle
  rackward placement throttle --remove

Shown are the settings that throttle replication, whichever tool has made them: the rates of all
brokers and of single ones, and the topics whose replicas are listed. A run of rackward (placement
apply, or the controller) marks its own. While that run goes on it sets its throttle again at its
next batch.

Exit status: 0 success; 1 declined at the prompt; 2 error (reason on stderr).

"""

COMMAND = "placement throttle"


class BrokerRates(msgspec.Struct, frozen=True):
    """The rates of a broker, in bytes per second."""

    id: int
    leader_rate: int | None
    follower_rate: int | None


class ThrottledTopic(msgspec.Struct, frozen=True):
    """The replicas of a topic that are throttled, as its configuration has them."""

    name: str
    leader_replicas: str | None
    follower_replicas: str | None


class ThrottleResult(msgspec.Struct, frozen=True):
    """The settings that throttle replication; rates in bytes per second.

    removed
        Whether they were removed.
    in_force
        In words; null: there is no throttle.
    of_rackward
        The rates that runs of rackward have set.
    leader_rate, follower_rate
        Those of all brokers; ``brokers`` are those with rates of their own.
    hidden_topics
        Topics that this user may not read.
    """

    removed: bool
    in_force: str | None
    of_rackward: list[int]
    leader_rate: int | None
    follower_rate: int | None
    brokers: list[BrokerRates]
    topics: list[ThrottledTopic]
    hidden_topics: tuple[str, ...]


RESULTS = (ThrottleResult,)


def throttle(
    *,
    remove: Annotated[
        bool,
        typer.Option(
            "--remove",
            help="Delete all settings that throttle replication, whichever tool has made them.",
        ),
    ] = False,
    run: RunOptions,
    cluster: ClusterOptions,
) -> None:
    """Show the replication throttle that is in force, or remove it."""
    if remove:
        require_confirmation(run)
    console = table_console(run.as_json)
    with cluster.connect() as admin:
        throttle = ReplicationThrottle(admin)
        settings = throttle.read_all()
        if settings.in_force:
            console.print(
                f"A replication throttle is in force: {settings.text}.",
                style="yellow",
                soft_wrap=True,
                markup=False,
            )
        elif settings.not_read is None:
            console.print("No replication throttle is in force.")
        if settings.not_read is not None:
            console.print(
                f"Not known: {settings.not_read}.", style="yellow", soft_wrap=True, markup=False
            )
        removed = remove and settings.in_force and not run.dry_run
        if removed:
            confirm("Remove it?", run.yes)
            throttle.remove_all(settings)
            console.print("Removed.", style="green")
    if run.as_json:
        print_json(COMMAND, throttle_result(settings, removed=removed))


def throttle_result(settings: ThrottleSettings, *, removed: bool) -> ThrottleResult:
    """Return the settings as the JSON of the command has them."""
    rates = settings.default.rates
    return ThrottleResult(
        removed,
        settings.summary,
        [marker.rate for marker in settings.default.markers],
        rates.leader,
        rates.follower,
        [BrokerRates(id, each.leader, each.follower) for id, each in settings.overrides.items()],
        [
            ThrottledTopic(topic, lists.get(LEADER_REPLICAS), lists.get(FOLLOWER_REPLICAS))
            for topic, lists in sorted(settings.lists.items())
        ],
        settings.hidden,
    )
