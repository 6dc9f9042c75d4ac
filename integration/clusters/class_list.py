"""Writes ``rackward/testing/kafka-classes.txt``: the classes that a node of Kafka loads.

``python -m integration.clusters.class_list`` starts a node, which is controller and broker in one,
and stops it when it runs. The lines are sorted, so that a new version changes few of them.
"""

from __future__ import annotations

import signal
import time
from contextlib import closing
from pathlib import Path

from rackward.testing import jolokia
from rackward.testing.broker_config import free_ports
from rackward.testing.kafka_jars import (
    CLASSES,
    Distribution,
    cache_directory,
    default_version,
    fetch_kafka,
    format_node,
)
from rackward.testing.processes import Processes

TIMEOUT = 90.0
"""Seconds that the node may take to start, or to stop."""


def loaded_classes(kafka: Distribution) -> list[str]:
    """Return the class list of a node, sorted. Raises RuntimeError if it does not start or stop."""
    with closing(Processes()) as processes:
        folder = Path(processes.folder)
        listed = folder / "classes.txt"
        properties = format_node(kafka, processes, folder / "formatted")
        (port,) = free_ports(1)
        command = kafka.server_command(
            properties,
            folder / "server.log",
            agent_port=port,
            options=[f"-XX:DumpLoadedClassList={listed}"],
        )
        processes.start("node", command, folder / "node.out")
        deadline = time.monotonic() + TIMEOUT
        while jolokia.broker_state(port) != jolokia.RUNNING:
            if processes.exit_code("node") is not None or time.monotonic() > deadline:
                output = (folder / "node.out").read_text(errors="replace")
                raise RuntimeError(f"the node did not start:\n{output}")
            time.sleep(0.05)
        processes.signal("node", signal.SIGTERM)
        processes.wait("node", TIMEOUT)
        lines = listed.read_text().splitlines()
        # Ids are only needed for classes of an application's own loaders.
        return sorted({line.partition(" id: ")[0] for line in lines if line[0] != "#"})


def main() -> None:
    """Write the file, and print how many lines it has."""
    classes = loaded_classes(fetch_kafka(default_version(), cache_directory(), print))
    CLASSES.write_text("\n".join(classes) + "\n")
    print(f"{len(classes):,} lines in {CLASSES}")


if __name__ == "__main__":
    main()
