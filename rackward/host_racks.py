"""The racks of clients that do not say theirs: by the host or the subnet that brokers see."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field

from placement_core import RackwardError, parse_rack

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

SUBSCRIPTION, MAPPING = "subscription", "mapping"
"""Where a member's rack is from."""


class HostRackError(RackwardError, ValueError):
    """A mapping of hosts to racks is invalid; the message says where, and what to write."""


@dataclass(frozen=True, slots=True)
class RackMap:
    """Host names in lower case, and networks (an address is one of its own), to racks.

    Of several networks that contain an address the smallest one counts.
    """

    hosts: Mapping[str, str] = field(default_factory=dict)
    networks: tuple[tuple[Network, str], ...] = ()

    def rack(self, host: str) -> str | None:
        """The rack of a member's host as brokers tell it (``/10.0.0.7``, ``name/10.0.0.7``)."""
        name, _, text = host.rpartition("/")
        if name and (found := self.hosts.get(name.lower())):
            return found
        if found := self.hosts.get(text.lower()):
            return found
        try:
            # fe80::1%eth0 says on which interface, which is the broker's affair.
            address = ipaddress.ip_address(text.partition("%")[0])
        except ValueError:
            return None
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
            address = address.ipv4_mapped
        return next((rack for network, rack in self.networks if address in network), None)

    def locate(self, rack: str | None, host: str) -> tuple[str | None, str | None]:
        """A member's rack and where it is from, both None where nobody knows.

        ``rack`` is the one that the member itself says, which wins.
        """
        if parse_rack(rack) is not None:
            return rack, SUBSCRIPTION
        found = self.rack(host)
        return (found, MAPPING) if found is not None else (None, None)


def parse_rack_map(pairs: Mapping[str, object], where: str) -> RackMap:
    """From ``{"10.1.0.0/16": "az1", "10.2.0.9": "az2", "client-7": "az2"}``.

    ``where`` begins every error. Raises HostRackError.
    """
    hosts: dict[str, str] = {}
    networks: dict[Network, str] = {}
    for key, rack in pairs.items():
        if not isinstance(rack, str) or parse_rack(rack) is None:
            raise HostRackError(f"{where}: the rack of {key!r} is {rack!r}: write its name")
        text = str(key).strip()
        try:
            network = ipaddress.ip_network(text)
        except ValueError as error:
            if "/" in text or not text:
                raise HostRackError(f"{where}: {key!r} is no subnet: {error}") from error
            hosts[text.lower()] = rack
            continue
        if networks.setdefault(network, rack) != rack:
            raise HostRackError(
                f"{where}: {key!r} has two racks, {networks[network]!r} and {rack!r}"
            )
    narrowest_first = sorted(networks.items(), key=lambda each: (-each[0].prefixlen, str(each[0])))
    return RackMap(hosts, tuple(narrowest_first))
