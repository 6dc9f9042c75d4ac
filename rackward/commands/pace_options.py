"""How fast, and in what portions, a plan is carried out."""

from __future__ import annotations

from typing import Annotated

import typer

from rackward.plans import Pace
from rackward.units import read_bytes

Throttle = Annotated[
    str | None,
    typer.Option(
        "--throttle",
        metavar="BYTES/s",
        help="What each broker may send, and receive, for new replicas: 50MB, say. "
        "Default: no bound.",
    ),
]
BatchCount = Annotated[
    int | None,
    typer.Option(
        "--batch-count",
        metavar="N",
        min=1,
        max=1_000_000,
        help="Partitions that are moved at a time. Default: 100.",
    ),
]
BatchBytes = Annotated[
    str | None,
    typer.Option(
        "--batch-bytes", metavar="BYTES", help="Bytes that are copied at a time: 20GB, say."
    ),
]


def read_pace(throttle: str | None, batch_count: int | None, batch_bytes: str | None) -> Pace:
    """The options as values. Raises InvalidOptionError, which names the option."""
    return Pace(
        partitions=batch_count,
        bytes=None if batch_bytes is None else read_bytes("--batch-bytes", batch_bytes),
        throttle=None if throttle is None else read_bytes("--throttle", throttle, rate=True),
    )


def over(given: Pace, planned: Pace) -> Pace:
    """What the command line says, and where it says nothing, the plan."""
    return Pace(
        partitions=given.partitions or planned.partitions,
        bytes=given.bytes or planned.bytes,
        throttle=given.throttle or planned.throttle,
    )
