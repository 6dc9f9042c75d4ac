"""Zones from the metadata services of clouds, and from what answers in their place."""

from __future__ import annotations

import socket
import time
import urllib.error
import urllib.request

import pytest

from assignors.rack_discovery import RackSource, SourceError, discover
from assignors.rack_discovery.cloud import CLOUD, Endpoint
from placement_core import InvalidOptionError
from tests.support.rack_sources import BROKEN_OFF, COMPUTE, ENDLESS, WRONG, Handler, MetadataServer
from tests.support.waiting import PATIENCE

ZONES = {
    "aws-zone-id": "use1-az4",
    "aws-zone-name": "us-east-1a",
    "gce": "europe-west1-b",
    "azure": "westeurope-2",
}


def source(name: str, server: MetadataServer) -> RackSource:
    return discover(name, endpoint=server.url)


@pytest.mark.parametrize("name", ZONES)
def test_the_zone(name: str) -> None:
    with MetadataServer() as server:
        asked = source(name, server)
        assert asked.ask(PATIENCE) == ZONES[name]
        assert asked.ask(PATIENCE) == ZONES[name]
    assert asked.name == name


def test_a_token_comes_before_the_zone() -> None:
    with MetadataServer() as server:
        source("aws-zone-id", server).ask(PATIENCE)
    assert server.asked == [
        "PUT /latest/api/token",
        "GET /latest/meta-data/placement/availability-zone-id",
    ]


def test_the_server_of_these_tests_is_as_strict_as_the_clouds() -> None:
    # Else the questions above could be wrong.
    with MetadataServer() as server:
        for path, status in {
            "/latest/meta-data/placement/availability-zone-id": 401,
            "/computeMetadata/v1/instance/zone": 403,
            "/metadata/instance/compute?api-version=2021-02-01": 400,
        }.items():
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(server.url + path, timeout=PATIENCE)
            assert refused.value.code == status
            refused.value.close()


@pytest.mark.parametrize("fault", WRONG)
@pytest.mark.parametrize("name", ZONES)
def test_a_wrong_answer_is_an_error_that_shows_nothing_of_it(name: str, fault: str) -> None:
    with MetadataServer(WRONG[fault]) as server, pytest.raises(SourceError) as error:
        source(name, server).ask(PATIENCE)
    assert len(str(error.value)) < 300
    assert str(error.value).isprintable()
    for secret in ("log in", "projects/1", "aaaa", "SSH"):
        assert secret not in str(error.value)


@pytest.mark.parametrize("fault", ENDLESS)
@pytest.mark.parametrize("name", ZONES)
def test_whatever_takes_longer_is_cut_off(name: str, fault: str) -> None:
    with MetadataServer(ENDLESS[fault]) as server:
        start = time.monotonic()
        with pytest.raises(SourceError, match="did not answer in time at http://127"):
            source(name, server).ask(0.3)
        # They take minutes.
        assert time.monotonic() - start < PATIENCE


def test_a_token_that_is_none_is_not_sent_on() -> None:
    def token(handler: Handler) -> None:
        handler.answer(200, b"a\r\nX-Injected: b")

    with MetadataServer(token) as server, pytest.raises(SourceError, match="answered no token"):
        source("aws-zone-id", server).ask(PATIENCE)
    assert server.asked == ["PUT /latest/api/token"]


def test_the_token_reaches_no_message() -> None:
    def fault(handler: Handler) -> None:
        token = handler.headers.get("X-aws-ec2-metadata-token")
        handler.answer(401 if token else 200, b"c2VjcmV0")

    with MetadataServer(fault) as server, pytest.raises(SourceError, match="HTTP 401") as error:
        source("aws-zone-id", server).ask(PATIENCE)
    assert "c2VjcmV0" not in str(error.value)


@pytest.mark.parametrize("name", ZONES)
def test_redirects_are_not_followed(name: str) -> None:
    with MetadataServer() as elsewhere:

        def redirect(handler: Handler) -> None:
            handler.answer(302, Location=elsewhere.url + handler.path, Metadata_Flavor="Google")

        with MetadataServer(redirect) as server, pytest.raises(SourceError, match="HTTP 302"):
            source(name, server).ask(PATIENCE)
        assert elsewhere.asked == []


@pytest.mark.parametrize("name", ZONES)
def test_no_proxy_is_asked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with MetadataServer() as server, MetadataServer() as proxy:
        for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(variable, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        assert source(name, server).ask(PATIENCE) == ZONES[name]
    assert proxy.asked == []


def test_an_answer_without_googles_header_is_not_googles() -> None:
    def fault(handler: Handler) -> None:
        handler.answer(200, b"projects/1/zones/europe-west1-b")

    with MetadataServer(fault) as server, pytest.raises(SourceError, match="without Metadata-Fl"):
        source("gce", server).ask(PATIENCE)


def test_zones_of_azure() -> None:
    found = []
    for location, zone in (("westeurope", "1"), ("EastUS2", "1")):
        with MetadataServer(compute={**COMPUTE, "location": location, "zone": zone}) as server:
            found.append(source("azure", server).ask(PATIENCE))
    assert found == ["westeurope-1", "eastus2-1"]


def test_a_machine_of_azure_in_no_zone() -> None:
    with (
        MetadataServer(compute={**COMPUTE, "zone": ""}) as server,
        pytest.raises(SourceError, match="in no availability zone"),
    ):
        source("azure", server).ask(PATIENCE)


@pytest.mark.parametrize("name", ZONES)
def test_nobody_there(name: str) -> None:
    # Bound, so that nobody else comes to listen there meanwhile.
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        asked = discover(name, endpoint=f"http://127.0.0.1:{silent.getsockname()[1]}")
        told = r"cannot be asked at http://127\S+ \(Connection refused"
        with pytest.raises(SourceError, match=told):
            asked.ask(PATIENCE)


def test_a_name_that_no_server_has(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(*_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with pytest.raises(SourceError, match=r"http://metadata\.invalid:80 \(Name or service not"):
        discover("gce", endpoint="http://metadata.invalid").ask(PATIENCE)


def test_half_an_answer_is_none() -> None:
    # What there is of it looks like a token, or a zone.
    with MetadataServer(BROKEN_OFF) as server, pytest.raises(SourceError, match="broke off"):
        source("aws-zone-id", server).ask(PATIENCE)


def test_endpoints() -> None:
    assert str(CLOUD) == "http://169.254.169.254:80"
    assert Endpoint.read("http://[fd00:ec2::254]") == Endpoint("fd00:ec2::254", 80)
    assert str(Endpoint.read(" http://[::1]:8080/ ")) == "http://[::1]:8080"


@pytest.mark.parametrize(
    "url",
    ["", "127.0.0.1:80", "https://x", "http://", "http://x:99999", "http://x/path", "http://[::1"],
)
def test_endpoints_that_are_none(url: str) -> None:
    with pytest.raises(InvalidOptionError, match="write http://HOST:PORT"):
        Endpoint.read(url)


def test_a_password_in_an_endpoint_is_not_shown() -> None:
    with pytest.raises(InvalidOptionError) as error:
        Endpoint.read("http://user:secret@x")
    assert "secret" not in str(error.value)
