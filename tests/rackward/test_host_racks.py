from __future__ import annotations

import pytest

from rackward.host_racks import HostRackError, RackMap, parse_rack_map

MAP = parse_rack_map(
    {
        "10.1.0.0/16": "az1",
        "10.1.7.0/24": "az2",
        "10.1.7.9": "az3",
        "2001:db8::/32": "az4",
        "Worker-7": "/dc1/r7",
    },
    "racks.yaml",
)


@pytest.mark.parametrize(
    ("host", "rack"),
    [
        ("/10.1.2.3", "az1"),
        ("/10.1.7.8", "az2"),
        ("10.1.7.9", "az3"),
        ("/2001:db8::7%3", "az4"),
        ("/::ffff:10.1.7.9", "az3"),
        ("worker-7/10.1.2.3", "/dc1/r7"),
        ("worker-7", "/dc1/r7"),
        ("worker-8/10.1.2.3", "az1"),
        ("/192.168.0.1", None),
        ("", None),
        ("/nonsense", None),
    ],
)
def test_the_narrowest_network_counts(host: str, rack: str | None) -> None:
    assert MAP.rack(host) == rack


def test_what_a_member_says_wins_over_the_mapping() -> None:
    assert MAP.locate("az9", "/10.1.2.3") == ("az9", "subscription")
    assert MAP.locate(None, "/10.1.2.3") == ("az1", "mapping")
    assert MAP.locate("", "/10.1.2.3") == ("az1", "mapping")
    assert MAP.locate(None, "/192.168.0.1") == (None, None)
    assert RackMap().locate(None, "/10.1.2.3") == (None, None)


@pytest.mark.parametrize(
    ("pairs", "told"),
    [
        ({"10.1.0.0/99": "a"}, "10.1.0.0/99"),
        ({"10.1.0.1/16": "a"}, "host bits"),
        ({"10.1.0.0/16": ""}, "10.1.0.0/16"),
        ({"10.1.0.0/16": 3}, "the rack of '10.1.0.0/16' is 3"),
        ({"10.0.0.1": "a", "10.0.0.1/32": "b"}, "two racks"),
    ],
)
def test_a_mapping_that_cannot_be_meant_is_refused(pairs: dict[str, object], told: str) -> None:
    with pytest.raises(HostRackError, match=told) as raised:
        parse_rack_map(pairs, "racks.yaml")
    assert str(raised.value).startswith("racks.yaml: ")
