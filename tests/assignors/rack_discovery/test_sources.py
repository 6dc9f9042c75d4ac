"""Racks from cloud metadata, and from the responses of other servers; from commands and files."""

from __future__ import annotations

import shlex
import socket
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from assignors.rack_discovery import RackSource, SourceError, discover
from assignors.rack_discovery.sources import command_source, file_source
from placement_core import InvalidOptionError
from tests.support.rack_sources import (
    COMPUTE,
    LATE_RESPONSES,
    WRONG_RESPONSES,
    Handler,
    MetadataServer,
    metadata_server,
    search_with_long_timeouts,
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
        message = r"cannot be reached \(Connection refused\) at http://127"
        with pytest.raises(SourceError, match=message):
            cloud.find_rack(TEST_TIMEOUT)


@pytest.mark.parametrize("url", ["http://[::1]", "http://[::1]/"])
def test_endpoint_may_be_an_ipv6_address(url: str) -> None:
    source = discover("gce", endpoint=url, timeout=0.01)
    with pytest.raises(SourceError, match=r"at http://\[::1\]:80: "):
        source.find_rack(0.01)


@pytest.mark.parametrize(
    "url",
    [" ", "127.0.0.1:80", "https://x", "http://", "http://x:99999", "http://x/path", "http://[::1"],
)
def test_invalid_endpoints_are_refused(url: str) -> None:
    with pytest.raises(InvalidOptionError, match="write http://HOST:PORT"):
        discover("gce", endpoint=url)


def test_a_password_in_an_endpoint_is_not_shown() -> None:
    with pytest.raises(InvalidOptionError) as caught:
        discover("gce", endpoint="http://user:secret@x")
    assert "secret" not in str(caught.value)


# Commands.


def python(code: str, *arguments: str) -> RackSource:
    return command_source(shlex.join([sys.executable, "-c", code, *arguments]), TEST_TIMEOUT)


def test_the_first_line_of_the_output_is_the_rack() -> None:
    for code in ("print(' use1-az4 '); print('and more')", "print('\\n\\nuse1-az4\\r')"):
        assert search_with_long_timeouts([python(code)]).rack == "use1-az4"


def test_a_command_runs_without_a_shell() -> None:
    line = shlex.join([sys.executable, "-c", "import sys; print(sys.argv[1])", "$HOME;`ls`|*"])
    assert discover(f"command:{line}").find_rack(TEST_TIMEOUT) == "$HOME;`ls`|*"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("pass", "returned nothing"),
        ("print(' \\n\\n ')", "returned nothing"),
        ("print('<html>')", "looks like an HTML page"),
        ("print('{\"error\": 1}')", "looks like an HTML page"),
        ("print('x' * 300)", "returned 300 characters"),
        ("print('a\\x1b[31mb')", "unprintable"),
        ("import os; os.write(1, b'\\xff\\xfe')", "printed text that is not UTF-8"),
        ("print('x' * 99999)", "printed more than 65536 bytes"),
        ("raise SystemExit('no\\nsuch zone')", "ended with status 1: such zone"),
        ("import os; os.write(2, b'\\x1b[31m'); raise SystemExit(3)", r"status 3: \x1b[31m"),
    ],
)
def test_commands_that_fail(code: str, message: str) -> None:
    ((source, reason),) = search_with_long_timeouts([python(code, "secret")]).failures.items()
    assert message in reason
    assert "secret" not in reason
    assert source == f"command {sys.executable}"


def test_a_missing_program() -> None:
    with pytest.raises(SourceError, match=r"^cannot be run: No such file or directory$"):
        command_source("no-such-program", 1.0).find_rack(1)


def test_a_slow_command_is_killed_with_its_children() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        # The child keeps a connection open for as long as it runs.
        port = server.getsockname()[1]
        child = (
            f"import socket, time; it = socket.create_connection(('127.0.0.1', {port}));"
            " time.sleep(600)"
        )
        code = (
            f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}]);"
            " time.sleep(600)"
        )
        connection = None
        for seconds in (0.7, 7.0, TEST_TIMEOUT):  # A busy machine may start the child late.
            message = rf"took longer than {seconds:g} s and was stopped: make it faster"
            with pytest.raises(SourceError, match=message):
                python(code).find_rack(seconds)
            with suppress(BlockingIOError):
                connection, _ = server.accept()
                break
        assert connection is not None
        with connection:
            connection.settimeout(TEST_TIMEOUT)
            assert connection.recv(1) == b""


@pytest.mark.parametrize("name", ["command:", "command: ", "command:a 'b", "command"])
def test_invalid_commands_are_refused(name: str) -> None:
    with pytest.raises(InvalidOptionError):
        discover(name)
    with pytest.raises(InvalidOptionError, match="has no endpoint"):
        discover("command:x", endpoint="http://x")


# Files.

LABELS = """app="billing"
pod-template-hash="5d4f"
topology.kubernetes.io/region="us-east-1"
topology.kubernetes.io/zone="use1-az4"
other-zone="b\\"\\u00e9"
"""


def read(path: str) -> object:
    return file_source(path).find_rack(1.0)


@pytest.mark.parametrize(
    "content", ["use1-az4", "use1-az4\n", "\n  use1-az4 \r\n\n", "\ufeffuse1-az4"]
)
def test_a_file_with_the_rack_alone(tmp_path: Path, content: str) -> None:
    file = tmp_path / "zone"
    file.write_text(content, encoding="utf-8")
    assert read(str(file)) == "use1-az4"


@pytest.mark.parametrize(
    ("key", "value"),
    [("topology.kubernetes.io/zone", "use1-az4"), ("app", "billing"), ("other-zone", 'b"é')],
)
def test_a_file_with_labels(tmp_path: Path, key: str, value: str) -> None:
    file = tmp_path / "labels"
    file.write_text(LABELS)
    assert read(f"{file}#{key}") == value


@pytest.mark.parametrize(
    ("content", "key", "message"),
    [
        (b"", "", "is empty"),
        (b" \n\n", "", "is empty"),
        (LABELS.encode(), "", "5 lines or labels instead of the rack alone"),
        (b'app="billing"', "", "give one as FILE#KEY"),
        (b"first\nsecond", "", "2 lines"),
        (b"\xff\xfe", "", "is not UTF-8"),
        (b"\x00" * (11 << 20), "", "larger than 1 MB"),
        (LABELS.encode(), "zone", 'has no line KEY="VALUE"'),
        (b"", "zone", "has no line KEY"),
        (b"zone=a", "zone", "no value in double quotes"),
        (b'zone="a', "zone", "no value in double quotes"),
        (b"zone=" + b"[" * 100_000, "zone", "no value in double quotes"),
        (b"zone", "zone", "no value in double quotes"),
    ],
)
def test_files_with_other_content(tmp_path: Path, content: bytes, key: str, message: str) -> None:
    file = tmp_path / "rack"
    file.write_bytes(content)
    with pytest.raises(SourceError, match=message) as caught:
        read(f"{file}#{key}" if key else str(file))
    # The path may be that of a file of secrets, by mistake.
    assert "billing" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"No such file or directory.: mount the file"):
        read(str(tmp_path / "absent"))
    with pytest.raises(SourceError, match="Is a directory"):
        read(str(tmp_path))
    with pytest.raises(SourceError, match="not a valid path"):
        read("a\0b")
