"""Resolving racks: the order of sources, caching, log lines, failures and timeouts."""

from __future__ import annotations

import http.client
import itertools
import logging
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

import assignors.rack_discovery.sources
from assignors.rack_discovery import discover
from assignors.rack_discovery.resolve import (
    CACHE_TTL,
    RackResolver,
    SearchResult,
    search,
    sources,
)
from assignors.rack_discovery.sources import RackSource, installed_plugins
from placement_core import InvalidOptionError
from tests.support.rack_sources import (
    HERE,
    RELEASE,
    Fault,
    hang,
    install,
    metadata_server,
    search_with_long_timeouts,
    slow,
    trickle,
)
from tests.support.waiting import TEST_TIMEOUT


class Calls:
    """A function of a source that records its calls."""

    def __init__(self, rack: object) -> None:
        self.rack = rack
        self.timeouts: list[float] = []

    def __call__(self, timeout: float) -> object:
        self.timeouts.append(timeout)
        return self.rack


@pytest.fixture(autouse=True)
def _long_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assignors.rack_discovery.resolve.search", search_with_long_timeouts)


@pytest.fixture
def resolver(caplog: pytest.LogCaptureFixture) -> RackResolver:
    caplog.set_level(logging.INFO, "rackward.assignors")
    return RackResolver()


class Clock:
    """The monotonic clock of the module, at ``now``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("assignors.rack_discovery.resolve.time", self)

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def log_lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def test_a_given_rack_is_returned_unchanged(
    resolver: RackResolver, caplog: pytest.LogCaptureFixture
) -> None:
    assert resolver.resolve(" a ", {"RACKWARD_RACK": "b"}) == " a "
    assert resolver.resolve("", {"RACKWARD_RACK": "b"}) == ""
    assert log_lines(caplog) == []


@pytest.mark.parametrize("rack", [3, b"a", ["a"], object()])
def test_a_rack_of_another_type_is_refused(resolver: RackResolver, rack: object) -> None:
    with pytest.raises(InvalidOptionError, match="give a string, discover"):
        resolver.resolve(rack, {})


# Log lines.


def test_the_source_of_a_rack_is_logged_once(
    resolver: RackResolver, caplog: pytest.LogCaptureFixture
) -> None:
    assert resolver.resolve(None, {}) is None
    for _ in range(3):
        assert resolver.resolve(None, {"RACKWARD_RACK": "a "}) == "a"
    assert log_lines(caplog) == [("INFO", "rack=a (source: RACKWARD_RACK)")]


def test_each_failure_is_logged_once_and_not_raised(
    resolver: RackResolver, caplog: pytest.LogCaptureFixture
) -> None:
    environ = {"RACKWARD_RACK_FILE": "/no/such", "RACKWARD_RACK": "<html>"}
    for _ in range(2):
        assert resolver.resolve(None, environ) is None
    assert log_lines(caplog) == [
        (
            "WARNING",
            "no rack from RACKWARD_RACK: returned what looks like an HTML page or a JSON document;"
            " this consumer starts without a rack",
        ),
        (
            "WARNING",
            "no rack from file /no/such: cannot be read (No such file or directory): mount the"
            " file, or give another path; this consumer starts without a rack",
        ),
    ]


def test_a_failure_is_logged_again_after_the_source_had_a_rack(
    clock: Clock, resolver: RackResolver, caplog: pytest.LogCaptureFixture
) -> None:
    calls = Calls(7)
    source = RackSource("counting", 1.0, calls)
    for rack, warnings in ((7, 1), ("", 1), ("a", 1), (7, 2), (7, 2)):
        calls.rack = rack
        resolver.resolve(source, {})
        assert len([line for line in log_lines(caplog) if line[0] == "WARNING"]) == warnings
        clock.now += CACHE_TTL


# Caching.


def test_a_given_source_is_the_only_one(resolver: RackResolver) -> None:
    environ = {"RACKWARD_RACK": "b"}
    with metadata_server() as server:
        source = discover("gce", endpoint=server.url, timeout=2.5)
        assert resolver.resolve(source, environ) == "europe-west1-b"
    assert resolver.resolve(RackSource("none", 1.0, Calls(None)), environ) is None


def test_equal_sources_are_requested_once(resolver: RackResolver) -> None:
    # Two assignors of one consumer, each of which calls discover().
    with metadata_server() as server:
        for _ in range(2):
            source = discover("gce", endpoint=server.url, timeout=2.5)
            assert resolver.resolve(source, {}) == "europe-west1-b"
        assert len(server.requests) == 1
        azure = discover("azure", endpoint=server.url, timeout=2.5)
        assert resolver.resolve(azure, {}) == "westeurope-2"


@pytest.mark.parametrize("rack", ["a", 7, None], ids=["rack", "failure", "no rack"])
def test_results_are_cached_until_they_expire(
    clock: Clock, resolver: RackResolver, rack: object
) -> None:
    calls = Calls(rack)
    source = RackSource("counting", 1.0, calls)
    for seconds, count in ((0.0, 1), (CACHE_TTL - 1, 1), (CACHE_TTL, 2)):
        clock.now = seconds
        resolver.resolve(source, {})
        assert len(calls.timeouts) == count


def test_concurrent_calls_search_once() -> None:
    resolver, searching, release = RackResolver(), threading.Event(), threading.Event()
    calls: list[str] = []

    def find(_: float) -> str:
        calls.append("find")
        searching.set()
        assert release.wait(TEST_TIMEOUT)
        return "a"

    source = RackSource("slow", TEST_TIMEOUT, find)
    racks: list[str | None] = []
    threads = [
        threading.Thread(target=lambda: racks.append(resolver.resolve(source, {}))) for _ in "ab"
    ]
    threads[0].start()
    assert searching.wait(TEST_TIMEOUT)
    threads[1].start()
    release.set()
    for thread in threads:
        thread.join(TEST_TIMEOUT)
    assert (racks, calls) == (["a", "a"], ["find"])


# The order of sources, and which are used only if they are named.


def test_the_order_of_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, mine="rack_a")
    file = tmp_path / "zone"
    file.write_text("in-the-file")
    with metadata_server() as server:
        variables = {
            "RACKWARD_RACK": "given",
            "RACKWARD_RACK_FILE": str(file),
            "RACKWARD_RACK_FROM": "aws-zone-id",
        }
        expected = {
            "RACKWARD_RACK": "given",
            "RACKWARD_RACK_FILE": "in-the-file",
            "RACKWARD_RACK_FROM": "use1-az4",
        }
        for count in range(len(variables) + 1):
            for names in itertools.combinations(variables, count):
                environ = {name: variables[name] for name in names}
                environ["RACKWARD_METADATA_ENDPOINT"] = server.url
                assert search_with_long_timeouts(sources(environ)).rack == (
                    expected[names[0]] if names else "a"
                )


def test_after_a_failure_the_next_source_is_used(tmp_path: Path) -> None:
    environ = {
        "RACKWARD_RACK": "\x1b",
        "RACKWARD_RACK_FILE": str(tmp_path / "absent"),
        "RACKWARD_RACK_FROM": "command:echo found",
    }
    result = search_with_long_timeouts(sources(environ))
    assert (result.rack, result.source) == ("found", "command echo")
    assert list(result.failures) == ["RACKWARD_RACK", f"file {tmp_path / 'absent'}"]


def test_no_request_is_sent_and_no_command_is_run_by_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("not requested")

    monkeypatch.setattr(http.client.HTTPConnection, "connect", refuse)
    monkeypatch.setattr(subprocess, "Popen", refuse)
    assert search_with_long_timeouts(sources({})).failures == {}
    # The patch is effective.
    failures = search_with_long_timeouts(sources({"RACKWARD_RACK_FROM": "gce"})).failures
    assert "not requested" in failures["gce"]


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"RACKWARD_RACK_FROM": "aws"}, "unknown source of racks 'aws': choose one of aws-z"),
        ({"RACKWARD_RACK_FROM": "comand:a secret"}, "unknown source of racks 'comand'"),
        ({"RACKWARD_RACK_FROM": "command:'"}, "the command for the rack cannot be parsed"),
        (
            {"RACKWARD_RACK_FROM": "gce", "RACKWARD_METADATA_ENDPOINT": "here"},
            "the endpoint of the metadata service is 'here'",
        ),
    ],
)
def test_invalid_names_of_sources(environ: dict[str, str], message: str) -> None:
    ((source, reason),) = search_with_long_timeouts(sources(environ)).failures.items()
    assert source == "RACKWARD_RACK_FROM"
    assert message in reason
    assert "secret" not in reason
    with pytest.raises(InvalidOptionError, match=message):
        discover(environ["RACKWARD_RACK_FROM"], environ=environ)


@pytest.mark.parametrize("timeout", [0, -1, 2.6, float("nan")])
def test_invalid_timeouts(timeout: float) -> None:
    with pytest.raises(InvalidOptionError, match=r"more than 0 and at most 2\.5"):
        discover("gce", timeout=timeout)


# Plug-ins.


def test_plugins_are_called_by_name_until_one_has_a_rack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, zz="rack_a", bb="none", cc="rack_b", aa="fails")
    result = search_with_long_timeouts(installed_plugins())
    assert (result.rack, result.source) == ("b", f"plug-in cc ({HERE}:rack_b)")
    assert result.without_rack == (f"plug-in bb ({HERE}:none)",)
    assert list(result.failures) == [f"plug-in aa ({HERE}:fails)"]


@pytest.mark.parametrize(
    ("plugin", "reason"),
    [
        ("number", "returned int instead of a string"),
        ("empty", "returned nothing"),
        ("html", "returned what looks like an HTML page or a JSON document"),
        ("fails", r"failed: ZeroDivisionError: planted\nin two lines"),
        ("raises_source_error", "is not in the inventory\\n" + "x" * 472 + "..."),
        ("exits", "failed: SystemExit: 3"),
        ("unprintable", f"failed: {HERE}._Unprintable: <exception str() failed>"),
        ("no.such:thing", "failed: ModuleNotFoundError: No module named 'no'"),
        (f"{HERE}:nothing", f"failed: AttributeError: module '{HERE}' has no attribute 'nothing'"),
        (f"{HERE}:HERE", "failed: TypeError: 'str' object is not callable"),
    ],
)
def test_failures_of_plugins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugin: str, reason: str
) -> None:
    install(tmp_path, monkeypatch, broken=plugin)
    failures = search_with_long_timeouts(installed_plugins()).failures
    assert list(failures.values()) == [reason]


@pytest.mark.parametrize("name", ["cc", f"{HERE}:rack_b"])
def test_a_plugin_by_name_is_the_only_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    install(tmp_path, monkeypatch, aa="rack_a", cc="rack_b")
    result = search_with_long_timeouts([discover(f" {name} ")])
    assert (result.rack, result.source) == ("b", f"plug-in {name} ({HERE}:rack_b)")
    result = search_with_long_timeouts(sources({"RACKWARD_RACK_FROM": name}))
    assert (result.rack, result.source) == ("b", f"plug-in {name} ({HERE}:rack_b)")


def test_a_plugin_has_no_endpoint() -> None:
    with pytest.raises(InvalidOptionError, match="has no endpoint: leave it out"):
        discover(f"{HERE}:rack_a", endpoint="http://127.0.0.1:9")


def test_plugins_that_cannot_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def entry_points(**_: str) -> None:
        raise ValueError("line 3 of entry_points.txt")

    monkeypatch.setattr(assignors.rack_discovery.sources, "entry_points", entry_points)
    ((source, reason),) = search_with_long_timeouts(installed_plugins()).failures.items()
    assert source == "plug-ins of rackward.racks"
    assert "line 3" in reason


# Timeouts: every search ends within three seconds.

MAX_SECONDS = 3.0


@pytest.fixture(autouse=True)
def _release_hanging_plugins() -> Iterator[None]:
    RELEASE.clear()
    yield
    RELEASE.set()


def timed_search(
    environ: Mapping[str, str], accept: Callable[[SearchResult], bool] = lambda _: True
) -> SearchResult:
    """Return a result that ``accept`` accepts of a search within MAX_SECONDS.

    Searches are repeated, because a busy machine may exceed the limit in some of them.
    """
    durations: list[float] = []
    deadline = time.monotonic() + TEST_TIMEOUT
    while time.monotonic() < deadline:
        start = time.monotonic()
        result = search(sources(environ))
        durations.append(time.monotonic() - start)
        if durations[-1] < MAX_SECONDS and accept(result):
            return result
    raise AssertionError(f"searches took {durations} s, the last one returned {result}")


@pytest.mark.parametrize("fault", [slow(2), hang, trickle], ids=["slow", "hang", "trickle"])
def test_a_slow_cloud_and_slow_plugins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    plugins = {f"p{index}": "hangs" for index in range(5)}
    install(tmp_path, monkeypatch, a="late", **plugins, z="rack_a")
    with metadata_server(fault) as server:
        result = timed_search(
            {"RACKWARD_RACK_FROM": "aws-zone-id", "RACKWARD_METADATA_ENDPOINT": server.url}
        )
    assert result.rack is None
    assert len(result.failures) == 8
    first, *_, last = result.failures.values()
    assert first.startswith("timed out")
    assert last == "was skipped: earlier sources took all of 2.5 s"


def test_a_file_that_hangs_and_a_command_that_hangs(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    result = timed_search(
        {
            "RACKWARD_RACK_FILE": str(pipe),
            "RACKWARD_RACK_FROM": f"command:{sys.executable} -c 'import time; time.sleep(60)'",
        }
    )
    of_file, of_command = result.failures.values()
    assert of_file == "timed out after 1 s"
    assert re.match(r"took longer than|timed out after", of_command)
    # Opening the pipe to write releases the reader.
    os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))


def test_a_slow_name_resolution(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def getaddrinfo(*_: object) -> None:
        release.wait(TEST_TIMEOUT)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    try:
        result = timed_search(
            {"RACKWARD_RACK_FROM": "gce", "RACKWARD_METADATA_ENDPOINT": "http://metadata.invalid"}
        )
    finally:
        release.set()
    assert result.failures == {"gce": "timed out after 1 s"}


def test_each_source_gets_its_timeout_or_the_remaining_time(clock: Clock) -> None:
    received = {}

    def source(name: str, timeout: float, duration: float) -> RackSource:
        def find(timeout: float) -> None:
            received[name] = timeout
            clock.now += duration

        return RackSource(name, timeout, find)

    timed = [source("a", 1.0, 0.5), source("b", 9.0, 1.25), source("c", 1.0, 0.75)]
    result = search([*timed, source("d", 1.0, 0.0)], timeout=2.5)
    # 0.2 s of the remaining time are reserved for the reason of a failure.
    assert received == {"a": 1.0, "b": pytest.approx(1.8), "c": pytest.approx(0.55)}
    assert result.without_rack == ("a", "b", "c")
    assert list(result.failures) == ["d"]
