"""``rackward traffic flows sample``: write flow records from the kernel's own counters."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import typer

from rackward.cli.commands import command_group
from rackward.cli.output import log_to_stderr
from rackward.flow_sampling import sample_flows

SAMPLE_EPILOG = """
\b
Examples:
  rackward traffic flows sample -o flows
  rackward traffic flows sample -o flows --interval 1 --duration 60

Needs Linux, root (CAP_NET_ADMIN), and sysctl -w net.netfilter.nf_conntrack_acct=1 before clients
and brokers connect. Reads the TCP connections of this network namespace: on a Docker host also
those of all containers, if br_netfilter is loaded. In another namespace:

\b
  nsenter --net=/proc/PID/ns/net rackward traffic flows sample -o flows

Exit status: 0 after --duration; 2 error (reason on stderr); 130 stopped with Ctrl-C, after the last
sample.
"""

app = command_group("Flow records: what each connection sent, as the network saw it.")


@app.command(epilog=SAMPLE_EPILOG)
def sample(
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="Write .json.gz files to this folder."
        ),
    ],
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="Time between two samples.")
    ] = 5.0,
    duration: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=0.0, help="Exit after this time. Default: run until Ctrl-C."
        ),
    ] = None,
) -> None:
    """Write flow records of this machine's connections, from the kernel's counters (conntrack).

    For test clusters and demos; clouds have flow logs.
    """
    stop = threading.Event()
    # A signal ends the wait of this thread, and lets the other one finish its sample.
    with log_to_stderr("rackward.flow_sampling"), ThreadPoolExecutor(1) as pool:
        sampling = pool.submit(
            sample_flows, output, interval=interval, duration=duration, stop=stop
        )
        try:
            sampling.result()
        finally:
            stop.set()
            sampling.result()
