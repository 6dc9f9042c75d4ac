"""Options that several commands have, with the same names, environment and help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rackward.admin import TIMEOUT_SECONDS

CLUSTER = "The cluster"
PLACEMENT = "Placement"

DEFAULT_TIMEOUT = TIMEOUT_SECONDS

BootstrapServer = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        metavar="HOST:PORT,...",
        envvar="RACKWARD_BOOTSTRAP_SERVER",
        help="Brokers to begin with.",
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        envvar="RACKWARD_COMMAND_CONFIG",
        help="How to connect (TLS, SASL, time-outs): a Java client.properties, or the same "
        "in librdkafka's names.",
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0.1,
        max=3600.0,
        help="How long the cluster may take to answer.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, to stdout.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before changing anything.")]

RackMapping = Annotated[
    str | None,
    typer.Option(
        "--mapping",
        metavar="HOST=RACK,...",
        help="Racks of members that do not say theirs, by host, address or network "
        "(10.0.1.0/24=a).",
    ),
]
AllowUnderReplicated = Annotated[
    bool,
    typer.Option(
        "--allow-under-replicated",
        help="Where fewer brokers are live than replicas are wanted, and at least "
        "min.insync.replicas: make them with what there is. rackward controller adds the rest.",
    ),
]
IgnoreRacks = Annotated[
    bool, typer.Option("--ignore-racks", help="Place as if no broker had a rack.")
]
RackLocatorName = Annotated[
    str | None,
    typer.Option(
        "--rack-locator",
        metavar="NAME",
        help="Where racks come from: metadata (the default: broker.rack), static, file, "
        "command, or module:Class.",
    ),
]
RackLocatorProperties = Annotated[
    str | None,
    typer.Option(
        "--rack-locator-properties",
        metavar="KEY=VALUE,...",
        help="Its properties: path=FILE of file, command=PROGRAM of command, "
        "ID=RACK,... of static.",
    ),
]
PlacementName = Annotated[
    str | None,
    typer.Option(
        "--placement",
        metavar="NAME",
        help="Who decides: rack-alternating (the default), simple, multi-level (racks such as "
        "/dc1/room2), like-topic, or module:Class.",
    ),
]
PlacementProperties = Annotated[
    str | None,
    typer.Option("--placement-properties", metavar="KEY=VALUE,...", help="Its properties."),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        metavar="N",
        min=0,
        help="Decides where layouts begin; the same seed, the same one.",
    ),
]
Brokers = Annotated[
    str | None,
    typer.Option(
        "--brokers", metavar="ID,...", help="Use these brokers only, such as 0,1,4-6. Default: all."
    ),
]
