"""Remove every container, volume and network that carries one cluster's label.

Run as a script, ``python sweep.py LABEL=VALUE``, by the supervisor of a `DockerCluster`
whose owner was killed; so it imports nothing of rackward.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any


def sweep(label: str) -> None:
    """Remove containers (running ones too), then networks, of that ``name=value`` label."""
    import docker
    from docker.errors import NotFound

    def remove(container: dict[str, Any]) -> None:
        with suppress(NotFound):
            client.api.remove_container(container["Id"], v=True, force=True)

    client = docker.from_env()
    try:
        found = client.api.containers(all=True, filters={"label": label})
        # Seven at once take a second, one after the other five.
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(remove, found))
        for network in client.api.networks(filters={"label": label}):
            with suppress(NotFound):
                client.api.remove_network(network["Id"])
    finally:
        client.close()


if __name__ == "__main__":
    sweep(sys.argv[1])
