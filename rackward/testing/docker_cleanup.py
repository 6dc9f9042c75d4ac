"""Removes every container, volume and network that carries the label of one cluster.

Also run as a script, ``python docker_cleanup.py NAME=VALUE``, by the reaper of a
`DockerCluster` whose owner was killed. So it imports nothing of rackward.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any


def remove_labelled(label: str) -> None:
    """Remove containers (running ones too) and networks with the label ``name=value``."""
    import docker
    from docker.errors import NotFound

    def remove(container: dict[str, Any]) -> None:
        with suppress(NotFound):
            client.api.remove_container(container["Id"], v=True, force=True)

    with closing(docker.from_env()) as client:
        containers = client.api.containers(all=True, filters={"label": label})
        # Seven in parallel take 1 s, one after the other 5 s.
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(remove, containers))
        for network in client.api.networks(filters={"label": label}):
            with suppress(NotFound):
                client.api.remove_network(network["Id"])


if __name__ == "__main__":
    remove_labelled(sys.argv[1])
