"""Every trace of a replication throttle in a cluster's configuration, read with a plain client."""

from __future__ import annotations

from typing import Any

from kafka.admin import ConfigResource, ConfigResourceType

from integration.topics import with_admin
from rackward.clusters import Cluster

Settings = dict[tuple[str, str], dict[str, str | None]]
"""(Kind, name) to key to value; brokers that are down are left out."""


def throttle_settings(cluster: Cluster) -> Settings:
    """All keys with "throttle" in them that were set for a broker, for all, or for a topic.

    Those for all brokers show at each of them.
    """
    cluster.await_metadata()

    def read(admin: Any) -> Settings:
        resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in admin.list_topics()]
        resources += [
            ConfigResource(ConfigResourceType.BROKER, str(broker.id))
            for broker in cluster.view([]).brokers
        ]
        found: Settings = {}
        # "modified" would pass over what is set for all brokers together.
        for kind, named in admin.describe_configs(resources, config_filter="all").items():
            for name, values in named.items():
                ours = {
                    key: each["value"]
                    for key, each in values.items()
                    if "throttle" in key and each["config_source"] != "DEFAULT_CONFIG"
                }
                if ours:
                    found[kind, name] = ours
        return found

    settings: Settings = with_admin(cluster, read)
    return settings
