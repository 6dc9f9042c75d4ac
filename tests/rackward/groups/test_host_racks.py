"""Racks of hosts and networks from a file or from options."""

from __future__ import annotations

import pytest

from placement_core import InvalidOptionError
from rackward.groups.host_racks import HostRacks

RACKS = {
    "10.1.0.0/16": "az1",
    "10.1.7.0/24": "az2",
    "10.1.7.9": "az3",
    "2001:db8::/32": "az4",
    "::1": "az5",
    "Worker-7": "/dc1/r7",
}
FROM_FILE = HostRacks.parse(RACKS, "racks.yaml")
FROM_OPTION = HostRacks.parse_option("--mapping", ",".join(f"{h}={r}" for h, r in RACKS.items()))


@pytest.mark.parametrize("host_racks", [FROM_FILE, FROM_OPTION], ids=["file", "option"])
@pytest.mark.parametrize(
    ("host", "rack"),
    [
        ("/10.1.2.3", "az1"),
        ("/10.1.7.8", "az2"),
        ("10.1.7.9", "az3"),
        ("/2001:db8::7%3", "az4"),
        # As Java writes an IPv6 address.
        ("/0:0:0:0:0:0:0:1", "az5"),
        ("/::1", "az5"),
        ("/::ffff:10.1.7.9", "az3"),
        ("worker-7/10.1.2.3", "/dc1/r7"),
        ("worker-7", "/dc1/r7"),
        ("/WORKER-7", "/dc1/r7"),
        ("worker-8/10.1.2.3", "az1"),
        ("/worker-8", None),
        ("/192.168.0.1", None),
        ("", None),
        ("/nonsense", None),
    ],
)
def test_the_host_name_or_the_smallest_network_wins(
    host_racks: HostRacks, host: str, rack: str | None
) -> None:
    assert host_racks.rack(host) == rack


def test_the_rack_of_the_subscription_wins_over_the_host() -> None:
    assert FROM_FILE.locate("az9", "/10.1.2.3") == ("az9", "subscription")
    assert FROM_FILE.locate(None, "/10.1.2.3") == ("az1", "mapping")
    assert FROM_FILE.locate("", "/10.1.2.3") == ("az1", "mapping")
    assert FROM_FILE.locate(None, "/192.168.0.1") == (None, None)
    assert HostRacks().locate(None, "/10.1.2.3") == (None, None)


@pytest.mark.parametrize(
    ("racks", "message"),
    [
        ({"10.1.0.0/99": "a"}, "10.1.0.0/99"),
        ({"10.1.0.1/16": "a"}, "host bits"),
        ({"10.1.0.0/16": ""}, "10.1.0.0/16"),
        ({"10.1.0.0/16": 3}, "the rack of '10.1.0.0/16' is 3"),
        ({"10.0.0.1": "a", "10.0.0.1/32": "b"}, "two racks"),
        ({"0:0:0:0:0:0:0:1": "a", "::1": "b"}, "two racks"),
    ],
)
def test_an_invalid_map_is_an_error_that_names_its_source(
    racks: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidOptionError, match=message) as raised:
        HostRacks.parse(racks, "racks.yaml")
    assert str(raised.value).startswith("racks.yaml: ")


@pytest.mark.parametrize("text", ["a", "10.0.0.0/99=a", "10.0.0.1=", "x/y=a", "h=a,h=b"])
def test_an_invalid_option_is_an_error_that_names_it(text: str) -> None:
    with pytest.raises(InvalidOptionError, match=r"^--mapping: "):
        HostRacks.parse_option("--mapping", text)
    assert HostRacks.parse_option("--mapping", None) == HostRacks()
