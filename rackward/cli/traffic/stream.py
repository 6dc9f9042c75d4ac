"""``rackward traffic stream``: the tables of traffic, kept up to date from a topic of snapshots."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from assignors.connection import ConnectionPropertyError
from placement_core import InvalidOptionError
from rack_traffic.consumer_properties import java_consumer_properties
from rack_traffic.options import EstimationOptions
from rack_traffic.writers import parse_writers
from rackward.cli import options
from rackward.cli.options import ClusterOptions
from rackward.cli.traffic import options as traffic_options
from rackward.cli.traffic.options import running_spark

STREAM_EPILOG = """
\b
Example:
  rackward traffic stream rackward-snapshots tables

FOLDER belongs to one stream. It receives the Delta tables hourly, partition_hours, rejected_rows
and progress, and the stream's own folders snapshots/ and checkpoint/. After a restart the stream
continues where it stopped, without loss or duplicates.

With --flows it also reads the files that arrive in that folder, for the tables flows_hourly and
replaced_hourly, and hourly has measured bytes where flow records cover an hour. Hours are computed
again for records that arrive up to a day late.

Exit status: 0 success (--once); 2 error (reason on stderr); 130 after Ctrl-C.
"""


def stream(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic of the snapshots.")],
    folder: traffic_options.Target,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    once: Annotated[
        bool, typer.Option("--once", help="Stop at the current end of the topic.")
    ] = False,
    every: Annotated[
        int, typer.Option(metavar="SECONDS", min=1, help="Time between batches.")
    ] = 60,
    delay: Annotated[
        float,
        typer.Option(
            metavar="MINUTES", min=0.0, help="Wait this long for late snapshots of an hour."
        ),
    ] = 10.0,
    max_gap: Annotated[
        float,
        typer.Option(
            metavar="HOURS",
            min=0.01,
            help="Do not estimate bytes for longer gaps between snapshots, and do not change hours "
            "that are older than this.",
        ),
    ] = 2.0,
    max_messages_per_batch: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER", min=1, help="Size of a batch, in messages and in files of --flows."
        ),
    ] = None,
    keep_days: Annotated[
        int,
        typer.Option(
            metavar="DAYS",
            min=1,
            help="Delete published hours and rejected rows that are older than this.",
        ),
    ] = 400,
    prices: options.Prices = None,
    prices_properties: options.PricesProperties = None,
    writers: options.Writers = None,
    flows: traffic_options.Flows = None,
    flow_format: traffic_options.FlowFormat = None,
    flow_addresses: traffic_options.FlowAddresses = None,
    master: traffic_options.Master = traffic_options.DEFAULT_MASTER,
    driver_memory: traffic_options.DriverMemory = traffic_options.DEFAULT_MEMORY,
    conf: traffic_options.Conf = None,
) -> None:
    """Keep the tables of traffic up to date from a topic of snapshots."""
    properties = _consumer_properties(bootstrap_server, command_config)
    price_table = options.price_table(prices, prices_properties)
    estimation = EstimationOptions(max_gap_hours=max_gap)
    producers = parse_writers(writers or ())
    flow_options = traffic_options.flow_options(flows, flow_format, flow_addresses)
    with running_spark(master, driver_memory, conf, kafka=True) as spark:
        from rack_traffic.stream import StreamOptions, flow_files, kafka_messages, start_stream

        messages = kafka_messages(spark, properties, topic, max_messages_per_batch)
        files = None
        if flow_options is not None:
            files = flow_files(spark, flow_options.path, max_messages_per_batch)
        job = StreamOptions(
            folder,
            price_table,
            estimation,
            timedelta(minutes=delay),
            keep_days,
            writers=producers,
            flows=flow_options,
        )
        query = start_stream(messages, job, files, once=once, every_seconds=every)
        sys.stderr.write(f"Reading topic {topic}; writing tables to {folder}\n")
        query.awaitTermination()


def _consumer_properties(server: str | None, config: Path | None) -> dict[str, str]:
    """Return the properties of Spark's consumer. Raise InvalidOptionError."""
    try:
        given = ClusterOptions(server, config).properties()
        if server is not None:
            # The option overrides both names of the property.
            given.pop("metadata.broker.list", None)
        properties = java_consumer_properties(given)
    except ConnectionPropertyError as error:
        raise InvalidOptionError(f"--command-config {config}: {error}") from error
    if not properties.get("bootstrap.servers"):
        raise InvalidOptionError("no bootstrap broker: give --bootstrap-server HOST:PORT")
    return properties
