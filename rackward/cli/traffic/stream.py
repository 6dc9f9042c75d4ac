"""``rackward traffic stream``: the same tables from a topic of snapshots, as hours close."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from assignors.connection import read_properties
from placement_core import InvalidOptionError
from rack_traffic.options import Beliefs
from rackward.cli import options
from rackward.cli.traffic import options as traffic_options
from rackward.cli.traffic.options import running

STREAM_EPILOG = """
FOLDER belongs to one stream: it gets the tables hourly and partition_hours, divided by hour and
cluster, and keeps snapshots/, progress/ and checkpoint/ for itself. Killed at any time and started
again, it goes on where it was; nothing is lost or counted twice.

The file of --command-config is one of a Java consumer.

Exit status: 0 done (--once); 2 where it could not be done; 130 after Ctrl-C.
"""


def stream(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where snapshots are written to.")],
    folder: traffic_options.Target,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    once: Annotated[
        bool, typer.Option("--once", help="Stop at the end of what the topic holds now.")
    ] = False,
    every: Annotated[
        int, typer.Option(metavar="SECONDS", min=1, help="Time from one batch to the next.")
    ] = 60,
    delay: Annotated[
        float,
        typer.Option(metavar="MINUTES", min=0.0, help="How late snapshots may come."),
    ] = 10.0,
    longest_gap: Annotated[
        float,
        typer.Option(
            "--longest-gap",
            metavar="HOURS",
            min=0.01,
            help="Gaps between snapshots that are longer are not spread over their hours; hours "
            "that are older are final.",
        ),
    ] = 2.0,
    most_per_batch: Annotated[
        int | None,
        typer.Option("--most-per-batch", metavar="MESSAGES", min=1, help="Limit of a batch."),
    ] = None,
    prices: traffic_options.Prices = None,
    master: traffic_options.Master = traffic_options.DEFAULT_MASTER,
    driver_memory: traffic_options.DriverMemory = traffic_options.DEFAULT_MEMORY,
    conf: traffic_options.Conf = None,
) -> None:
    """Keep the tables of traffic up to date from a Kafka topic of snapshots."""
    settings = _settings(bootstrap_server, command_config)
    rules = traffic_options.price_table(prices)
    beliefs = Beliefs(longest_gap_hours=longest_gap)
    with running(traffic_options.spark_options(master, driver_memory, conf, kafka=True)) as spark:
        from rack_traffic.stream import StreamOptions, kafka_messages, start_stream

        messages = kafka_messages(spark, settings, topic, most_per_batch)
        job = StreamOptions(folder, rules, beliefs, delay)
        query = start_stream(messages, job, once=once, every_seconds=every)
        sys.stderr.write(f"Reading {topic}; tables go to {folder}\n")
        query.awaitTermination()


def _settings(server: str | None, config: Path | None) -> dict[str, str]:
    """The consumer's settings. Raises InvalidOptionError where no broker is named."""
    settings: dict[str, str] = {}
    if config is not None:
        try:
            settings = read_properties(config.read_text())
        except OSError as error:
            raise InvalidOptionError(f"cannot read {config}: {error.strerror}") from error
    if server is not None:
        settings["bootstrap.servers"] = server
    if not settings.get("bootstrap.servers"):
        raise InvalidOptionError("no broker to begin with: give --bootstrap-server HOST:PORT")
    return settings
