"""``rackward placement suggest``: request a layout from a placement service."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated

import msgspec
import typer

from placement_core import InvalidOptionError, ReplicaLists, TopicPartition
from rackward.cli import options
from rackward.cli.options import ClusterOptions, parse_broker_ids
from rackward.cli.output import print_json, stderr, stdout
from rackward.cli.plan_output import MAX_LISTED_PARTITIONS
from rackward.cli.topics import show_replica_lists
from rackward.kafka import read_state
from rackward.placement_service import DEFAULT_ADDRESS, MutualTls, create_replica_placement
from rackward.reassignment.plan import STDIO, to_kafka_json, write_text
from rackward.topics.planner import topic_shape
from rackward.units import format_count

EPILOG = """
\b
Examples:
  rackward placement suggest -p 12 -r 3
  rackward placement suggest -p 12 -r 3 --topic orders -o orders.json
  rackward placement apply --reassignment-json-file orders.json

The service is part of rackward controller, whose configuration has the placement strategy and the
source of racks. This command changes nothing. With --bootstrap-server or --command-config it also
connects to the cluster, to show the brokers' racks and to check --topic.

With --topic and --output FILE, the layout is written as a reassignment of that topic, which must
exist with the same number of partitions, for placement apply.

Exit status: 0 success; 2 error (reason on stderr).

"""


class Suggestion(msgspec.Struct, frozen=True):
    """A layout; ``replicas`` are by partition."""

    service: str
    partitions: int
    replication_factor: int
    replicas: dict[int, tuple[int, ...]]


RESULTS = (Suggestion,)


def suggest(
    *,
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions",
            "-p",
            metavar="N",
            min=1,
            max=1_000_000,
            help="Number of partitions of the topic.",
        ),
    ],
    replication_factor: Annotated[
        int,
        typer.Option(
            "--replication-factor",
            "-r",
            metavar="N",
            min=1,
            max=1000,
            help="Number of replicas per partition.",
        ),
    ],
    service: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            envvar="RACKWARD_PLACEMENT_SERVICE",
            help="Address of the placement service.",
        ),
    ] = DEFAULT_ADDRESS,
    force_simple: Annotated[
        bool,
        typer.Option(
            "--force-simple",
            help="Place as if no broker had a rack, whatever the configuration of the service.",
        ),
    ] = False,
    brokers: options.Brokers = None,
    topic: Annotated[
        str | None,
        typer.Option(metavar="TOPIC", help="The topic of the reassignment that --output writes."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the layout to FILE as the JSON of kafka-reassign-partitions; - is stdout.",
        ),
    ] = None,
    ca_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="TLS: CA certificates that sign the service's."),
    ] = None,
    cert_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="TLS: the client certificate.")
    ] = None,
    key_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="TLS: the client's private key. Default: the key in --cert-file."
        ),
    ] = None,
    all_partitions: options.AllPartitions = False,
    as_json: options.Json = False,
    cluster: ClusterOptions,
) -> None:
    """Show where a placement service would place the replicas of a topic.

    The service uses its configured placement strategy and rack source, and the brokers that are
    live now.
    """
    if (topic is None) != (output is None):
        raise InvalidOptionError("--topic and --output belong together: give both, or neither")
    if output == STDIO and as_json:
        raise InvalidOptionError("--output - and --json both write to stdout: give one of the two")
    tls = None
    if ca_file is not None and cert_file is not None:
        tls = MutualTls(ca_file, cert_file, key_file)
    elif (ca_file, cert_file, key_file) != (None, None, None):
        raise InvalidOptionError(
            "the service uses mutual TLS: give --ca-file and --cert-file (and --key-file, if the "
            "key is in another file)"
        )
    racks = _read_racks(cluster, topic, partitions)
    rows = create_replica_placement(
        service,
        partitions,
        replication_factor,
        force_simple_placement=force_simple,
        broker_ids=() if brokers is None else parse_broker_ids("--brokers", brokers),
        timeout=cluster.timeout,
        tls=tls,
    )
    if as_json:
        replicas = dict(enumerate(rows))
        print_json("placement suggest", Suggestion(service, len(rows), len(rows[0]), replicas))
    else:
        console = stderr() if output == STDIO else stdout()
        count = format_count(partitions, "partition")
        console.print(f"{count}, {format_count(replication_factor, 'replica')}", style="bold")
        limit = None if all_partitions else MAX_LISTED_PARTITIONS
        show_replica_lists(rows, racks, console, limit=limit)
    if topic is not None and output is not None:
        _write_reassignment(topic, rows, output)


def _read_racks(
    cluster: ClusterOptions, topic: str | None, partitions: int
) -> Mapping[int, str | None]:
    """Return the brokers' racks; none if no cluster is given.

    Raises InvalidOptionError if the cluster's topic has another number of partitions, and
    AdminError if it does not have it.
    """
    if cluster.bootstrap_server is None and cluster.command_config is None:
        return {}
    with cluster.connect() as admin:
        state = read_state(admin, [topic] if topic is not None else [], reassignments=False)
    if topic is not None:
        count, _ = topic_shape(state, topic)
        if count != partitions:
            raise InvalidOptionError(
                f"--partitions {partitions}: topic {topic} has {format_count(count, 'partition')}: "
                "give that number"
            )
    return state.view.racks()


def _write_reassignment(topic: str, rows: ReplicaLists, output: str) -> None:
    """Write the layout. Raises InvalidOptionError if it has placeholders, and PlanFileError."""
    if any(broker < 0 for row in rows for broker in row):
        raise InvalidOptionError(
            f"--output {output}: brokers are missing (negative ids), and a reassignment cannot "
            "contain them: try again when they are live"
        )
    text = to_kafka_json({TopicPartition(topic, number): row for number, row in enumerate(rows)})
    if output == STDIO:
        sys.stdout.write(text)
    else:
        write_text(output, text)
        stderr().print(
            f"Reassignment written to {output}. To execute it: rackward placement apply "
            f"--reassignment-json-file {output}"
        )
