"""Zones from the metadata services of clouds, and responses of other servers."""

from __future__ import annotations

import socket
import time
import urllib.error
import urllib.request

import pytest

from assignors.rack_discovery import RackSource, SourceError, discover
from assignors.rack_discovery.cloud import DEFAULT_ENDPOINT, Endpoint
from placement_core import InvalidOptionError
from tests.support.rack_sources import (
    COMPUTE,
    LATE_RESPONSES,
    TRUNCATED,
    WRONG_RESPONSES,
    Handler,
    MetadataServer,
    metadata_server,
)
from tests.support.waiting import TEST_TIMEOUT

ZONES = {
    "aws-zone-id": "use1-az4",
    "aws-zone-name": "us-east-1a",
    "gce": "europe-west1-b",
    "azure": "westeurope-2",
}


def source(name: str, server: MetadataServer) -> RackSource:
    return discover(name, endpoint=server.url)


@pytest.mark.parametrize("name", ZONES)
def test_each_cloud_returns_its_zone(name: str) -> None:
    with metadata_server() as server:
        cloud = source(name, server)
        assert cloud.find_rack(TEST_TIMEOUT) == ZONES[name]
        assert cloud.find_rack(TEST_TIMEOUT) == ZONES[name]
    assert cloud.name == name


def test_aws_is_sent_a_token_request_first() -> None:
    with metadata_server() as server:
        source("aws-zone-id", server).find_rack(TEST_TIMEOUT)
    assert server.requests == [
        "PUT /latest/api/token",
        "GET /latest/meta-data/placement/availability-zone-id",
    ]


def test_the_test_server_refuses_what_the_clouds_refuse() -> None:
    # The server must refuse wrong requests, or the other tests would not detect them.
    with metadata_server() as server:
        for path, status in {
            "/latest/meta-data/placement/availability-zone-id": 401,
            "/computeMetadata/v1/instance/zone": 403,
            "/metadata/instance/compute?api-version=2021-02-01": 400,
        }.items():
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(server.url + path, timeout=TEST_TIMEOUT)
            assert refused.value.code == status
            refused.value.close()


@pytest.mark.parametrize("fault", WRONG_RESPONSES)
@pytest.mark.parametrize("name", ZONES)
def test_a_wrong_response_is_an_error_that_does_not_show_it(name: str, fault: str) -> None:
    with metadata_server(WRONG_RESPONSES[fault]) as server, pytest.raises(SourceError) as caught:
        source(name, server).find_rack(TEST_TIMEOUT)
    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()
    for secret in ("log in", "projects/1", "aaaa", "SSH"):
        assert secret not in str(caught.value)


@pytest.mark.parametrize("fault", LATE_RESPONSES)
@pytest.mark.parametrize("name", ZONES)
def test_a_late_response_times_out(name: str, fault: str) -> None:
    with metadata_server(LATE_RESPONSES[fault]) as server:
        start = time.monotonic()
        with pytest.raises(SourceError, match="timed out at http://127"):
            source(name, server).find_rack(0.3)
        # The server would respond after minutes.
        assert time.monotonic() - start < TEST_TIMEOUT


def test_an_invalid_token_is_not_sent_back() -> None:
    def token(handler: Handler) -> None:
        handler.respond(200, b"a\r\nX-Injected: b")

    with metadata_server(token) as server, pytest.raises(SourceError, match="returned no token"):
        source("aws-zone-id", server).find_rack(TEST_TIMEOUT)
    assert server.requests == ["PUT /latest/api/token"]


def test_no_error_shows_the_token() -> None:
    def fault(handler: Handler) -> None:
        token = handler.headers.get("X-aws-ec2-metadata-token")
        handler.respond(401 if token else 200, b"c2VjcmV0")

    with metadata_server(fault) as server, pytest.raises(SourceError, match="HTTP 401") as caught:
        source("aws-zone-id", server).find_rack(TEST_TIMEOUT)
    assert "c2VjcmV0" not in str(caught.value)


@pytest.mark.parametrize("name", ZONES)
def test_redirects_are_not_followed(name: str) -> None:
    with metadata_server() as other:

        def redirect(handler: Handler) -> None:
            handler.respond(302, Location=other.url + handler.path, Metadata_Flavor="Google")

        with metadata_server(redirect) as server, pytest.raises(SourceError, match="HTTP 302"):
            source(name, server).find_rack(TEST_TIMEOUT)
        assert other.requests == []


@pytest.mark.parametrize("name", ZONES)
def test_proxies_are_not_used(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with metadata_server() as server, metadata_server() as proxy:
        for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(variable, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        assert source(name, server).find_rack(TEST_TIMEOUT) == ZONES[name]
    assert proxy.requests == []


def test_a_response_without_googles_header_is_refused() -> None:
    def fault(handler: Handler) -> None:
        handler.respond(200, b"projects/1/zones/europe-west1-b")

    with metadata_server(fault) as server, pytest.raises(SourceError, match="without Metadata-Fl"):
        source("gce", server).find_rack(TEST_TIMEOUT)


@pytest.mark.parametrize(
    ("location", "zone", "rack"),
    [("westeurope", "1", "westeurope-1"), ("EastUS2", "1", "eastus2-1")],
)
def test_azure_racks_have_location_and_zone(location: str, zone: str, rack: str) -> None:
    with metadata_server(compute={**COMPUTE, "location": location, "zone": zone}) as server:
        assert source("azure", server).find_rack(TEST_TIMEOUT) == rack


def test_an_azure_location_with_other_characters_is_no_zone() -> None:
    with (
        metadata_server(compute={**COMPUTE, "location": "west-europe"}) as server,
        pytest.raises(SourceError, match="returned no zone"),
    ):
        source("azure", server).find_rack(TEST_TIMEOUT)


def test_an_azure_machine_in_no_zone_is_an_error() -> None:
    with (
        metadata_server(compute={**COMPUTE, "zone": ""}) as server,
        pytest.raises(SourceError, match="in no availability zone"),
    ):
        source("azure", server).find_rack(TEST_TIMEOUT)


@pytest.mark.parametrize("name", ZONES)
def test_a_refused_connection_is_an_error(name: str) -> None:
    # The port is bound, so that no other process can listen on it.
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        cloud = discover(name, endpoint=f"http://127.0.0.1:{bound.getsockname()[1]}")
        message = r"cannot be reached at http://127\S+ \(Connection refused"
        with pytest.raises(SourceError, match=message):
            cloud.find_rack(TEST_TIMEOUT)


def test_an_unknown_host_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(*_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with pytest.raises(SourceError, match=r"http://metadata\.invalid:80 \(Name or service not"):
        discover("gce", endpoint="http://metadata.invalid").find_rack(TEST_TIMEOUT)


def test_a_truncated_response_is_an_error() -> None:
    # The part that arrives looks like a token or a zone.
    with (
        metadata_server(TRUNCATED) as server,
        pytest.raises(SourceError, match="closed the connection before the end"),
    ):
        source("aws-zone-id", server).find_rack(TEST_TIMEOUT)


def test_endpoints_are_parsed() -> None:
    assert str(DEFAULT_ENDPOINT) == "http://169.254.169.254:80"
    assert Endpoint.parse("http://[fd00:ec2::254]") == Endpoint("fd00:ec2::254", 80)
    assert str(Endpoint.parse(" http://[::1]:8080/ ")) == "http://[::1]:8080"


@pytest.mark.parametrize(
    "url",
    ["", "127.0.0.1:80", "https://x", "http://", "http://x:99999", "http://x/path", "http://[::1"],
)
def test_invalid_endpoints_are_refused(url: str) -> None:
    with pytest.raises(InvalidOptionError, match="write http://HOST:PORT"):
        Endpoint.parse(url)


def test_a_password_in_an_endpoint_is_not_shown() -> None:
    with pytest.raises(InvalidOptionError) as caught:
        Endpoint.parse("http://user:secret@x")
    assert "secret" not in str(caught.value)
