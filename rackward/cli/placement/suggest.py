"""``rackward placement suggest``: where a placement service would put the replicas of a topic."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from placement_core import InvalidOptionError, ReplicaLists, TopicPartition
from placement_core.reassignment import to_kafka_json
from rackward.cli import options
from rackward.cli.console import print_json, stderr, stdout
from rackward.cli.options import broker_ids
from rackward.cli.render.topics import MAX_PLANNED_PARTITIONS as MOST_PARTITIONS
from rackward.cli.render.topics import show_rows
from rackward.placement_service import DEFAULT_ADDRESS, MutualTls, create_replica_placement
from rackward.reassignment.plan_file import STANDARD, write_text
from rackward.units import count_text

EPILOG = """
The service is one that rackward's controller holds: who places, and where racks come from, is its
configuration, and this command needs neither brokers nor that configuration. Nothing is changed.

A suggestion belongs to no topic until --topic names one. With --output FILE it becomes a
reassignment of that topic, which must exist with as many partitions:

\b
rackward placement suggest --service localhost:9480 -p 12 -r 3 --topic orders -o orders.json
rackward placement apply --reassignment-json-file orders.json

Exit status: 0 done; 2 where there is no suggestion, with the service's reason in one line.

\b
JSON: {schema_version: 1, command, service, partitions, replication_factor,
 replicas: {partition: [broker, ...]}}
"""


def suggest(
    partitions: Annotated[
        int,
        typer.Option("--partitions", "-p", metavar="N", min=1, max=1_000_000, help="Of the topic."),
    ],
    replication_factor: Annotated[
        int,
        typer.Option(
            "--replication-factor", "-r", metavar="N", min=1, max=1000, help="Of the topic."
        ),
    ],
    service: Annotated[
        str,
        typer.Option(
            "--service",
            metavar="HOST:PORT",
            envvar="RACKWARD_PLACEMENT_SERVICE",
            help="Where the placement service is.",
        ),
    ] = DEFAULT_ADDRESS,
    force_simple: Annotated[
        bool,
        typer.Option(
            "--force-simple",
            help="As if no broker had a rack, whatever the service is configured with.",
        ),
    ] = False,
    brokers: options.Brokers = None,
    topic: Annotated[
        str | None,
        typer.Option("--topic", metavar="TOPIC", help="Whose reassignment --output writes."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write it as kafka-reassign-partitions and rackward placement apply read it; "
            "- is stdout.",
        ),
    ] = None,
    ca_file: Annotated[
        str | None,
        typer.Option(
            "--ca-file", metavar="FILE", help="TLS: who may have signed the service's certificate."
        ),
    ] = None,
    cert_file: Annotated[
        str | None,
        typer.Option(
            "--cert-file", metavar="FILE", help="TLS: the certificate to prove oneself with."
        ),
    ] = None,
    key_file: Annotated[
        str | None,
        typer.Option(
            "--key-file", metavar="FILE", help="TLS: its key, where --cert-file does not have it."
        ),
    ] = None,
    every_partition: Annotated[
        bool, typer.Option("--every-partition", help="Show each partition, however many there are.")
    ] = False,
    as_json: options.Json = False,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=0.1,
            max=3600.0,
            help="How long the service may take to answer.",
        ),
    ] = options.DEFAULT_TIMEOUT,
) -> None:
    """Ask a placement service where the replicas of a topic should be.

    It answers as it is configured: with its placer, its racks, and the brokers that are live now.
    """
    _check_output(topic, output, as_json)
    tls = _tls(ca_file, cert_file, key_file)
    rows = create_replica_placement(
        service,
        partitions,
        replication_factor,
        force_simple_placement=force_simple,
        broker_ids=() if brokers is None else broker_ids(brokers),
        timeout=timeout,
        tls=tls,
    )
    if as_json:
        print_json("placement suggest", _fields(service, rows))
    else:
        console = stderr() if output == STANDARD else stdout()
        copies = count_text(replication_factor, "replica")
        console.print(f"{count_text(partitions, 'partition')}, {copies}", style="bold")
        show_rows(rows, {}, console, most=None if every_partition else MOST_PARTITIONS)
    if topic is not None and output is not None:
        _write(topic, rows, output)


def _check_output(topic: str | None, output: str | None, as_json: bool) -> None:
    if (topic is None) != (output is None):
        raise InvalidOptionError("--topic and --output belong together: give both, or neither")
    if output == STANDARD and as_json:
        raise InvalidOptionError("--output - and --json: stdout is for one of the two")


def _tls(ca_file: str | None, cert_file: str | None, key_file: str | None) -> MutualTls | None:
    if ca_file is None and cert_file is None and key_file is None:
        return None
    if ca_file is None or cert_file is None:
        raise InvalidOptionError(
            "TLS goes both ways here: give --ca-file and --cert-file (and --key-file, where the "
            "key is in a file of its own)"
        )
    return MutualTls(ca_file, cert_file, key_file)


def _fields(service: str, rows: ReplicaLists) -> dict[str, Any]:
    return {
        "service": service,
        "partitions": len(rows),
        "replication_factor": len(rows[0]),
        "replicas": {str(number): list(row) for number, row in enumerate(rows)},
    }


def _write(topic: str, rows: ReplicaLists, output: str) -> None:
    """Raises InvalidOptionError where a broker is still missing, and PlanFileError."""
    if any(broker < 0 for row in rows for broker in row):
        raise InvalidOptionError(
            f"--output {output}: brokers are missing (the negative ids), and a reassignment "
            "cannot name them: ask again when they are back"
        )
    text = to_kafka_json({TopicPartition(topic, number): row for number, row in enumerate(rows)})
    if output == STANDARD:
        sys.stdout.write(text)
    else:
        write_text(Path(output), text)
        stderr().print(
            f"Written to {output}. Carry it out: rackward placement apply "
            f"--reassignment-json-file {output}"
        )
