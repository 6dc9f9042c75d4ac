"""Racks of clients by the host or network that they connect from.

For members that do not send a rack (``client.rack``): ``--mapping HOST=RACK,...`` on the command
line, and the ``racks`` of a collector's configuration.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field

from placement_core import InvalidOptionError, parse_rack
from placement_core.plugins import parse_properties

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

SUBSCRIPTION, MAPPING = "subscription", "mapping"
"""Sources of a member's rack: the member itself, or its host."""


@dataclass(frozen=True, slots=True)
class HostRacks:
    """A map from hosts to racks.

    ``hosts`` are host names in lower case. ``networks`` are sorted from the smallest to the
    largest, so that the first one that contains an address wins; a single address is a network
    of its own.
    """

    hosts: Mapping[str, str] = field(default_factory=dict)
    networks: tuple[tuple[Network, str], ...] = ()

    @classmethod
    def parse(cls, racks: Mapping[str, object], source: str) -> HostRacks:
        """Return the map for ``{"10.1.0.0/16": "az1", "::1": "az2", "client-7": "az2"}``.

        Raises InvalidOptionError, which begins with ``source``.
        """
        hosts: dict[str, str] = {}
        networks: dict[Network, str] = {}
        for key, rack in racks.items():
            if not isinstance(rack, str) or parse_rack(rack) is None:
                raise InvalidOptionError(
                    f"{source}: the rack of {key!r} is {rack!r}: give the name of a rack"
                )
            host = str(key).strip()
            try:
                network = ipaddress.ip_network(host)
            except ValueError as error:
                if "/" in host or not host:
                    raise InvalidOptionError(
                        f"{source}: {key!r} is not a valid network: {error}"
                    ) from error
                hosts[host.lower()] = rack
                continue
            if networks.setdefault(network, rack) != rack:
                raise InvalidOptionError(
                    f"{source}: {key!r} has two racks, {networks[network]!r} and {rack!r}: "
                    "remove one"
                )
        smallest_first = sorted(
            networks.items(), key=lambda item: (-item[0].prefixlen, str(item[0]))
        )
        return cls(hosts, tuple(smallest_first))

    @classmethod
    def parse_option(cls, option: str, text: str | None) -> HostRacks:
        """Return the map for ``HOST=RACK,...``, or an empty one for None.

        Raises InvalidOptionError, which begins with ``option``.
        """
        try:
            racks = parse_properties(text or "")
        except InvalidOptionError as error:
            raise InvalidOptionError(f"{option}: {error}") from error
        return cls.parse(racks, option)

    def rack(self, host: str) -> str | None:
        """Return the rack of a host as brokers report it (``/10.0.0.7``, ``name/10.0.0.7``)."""
        name, _, text = host.rpartition("/")
        for known in (name.lower(), text.lower()):
            if known in self.hosts:
                return self.hosts[known]
        try:
            # The interface of fe80::1%eth0 is one of the broker's.
            address = ipaddress.ip_address(text.partition("%")[0])
        except ValueError:
            return None
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
            address = address.ipv4_mapped
        return next((rack for network, rack in self.networks if address in network), None)

    def locate(self, rack: str | None, host: str) -> tuple[str | None, str | None]:
        """Return a member's rack and its source; both are None if the rack is unknown.

        ``rack`` is the one in the member's subscription, which wins over that of its host.
        """
        if parse_rack(rack) is not None:
            return rack, SUBSCRIPTION
        host_rack = self.rack(host)
        return (host_rack, MAPPING) if host_rack is not None else (None, None)
