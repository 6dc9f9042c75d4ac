"""Which source is asked before which, and which is never asked unless it is named."""

from __future__ import annotations

import http.client
import itertools
import subprocess
from pathlib import Path

import pytest

from assignors.discovery import discover
from assignors.discovery.order import sources
from integration.waiting import PATIENCE
from placement_core import InvalidOptionError
from tests.assignors.discovery.metadata_server import MetadataServer
from tests.assignors.discovery.patience import search_patiently
from tests.assignors.discovery.plugged import install


def test_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, mine="rack_a")
    file = tmp_path / "zone"
    file.write_text("in-the-file")
    with MetadataServer() as server:
        said = {
            "RACKWARD_RACK": "said",
            "RACKWARD_RACK_FILE": str(file),
            "RACKWARD_RACK_FROM": "aws-zone-id",
        }
        expected = {
            "RACKWARD_RACK": "said",
            "RACKWARD_RACK_FILE": "in-the-file",
            "RACKWARD_RACK_FROM": "use1-az4",
        }
        for count in range(len(said) + 1):
            for named in itertools.combinations(said, count):
                environ = {name: said[name] for name in named}
                environ["RACKWARD_METADATA_ENDPOINT"] = server.url
                assert search_patiently(sources(environ)).rack == (
                    expected[named[0]] if named else "a"
                )


def test_a_source_that_fails_leaves_it_to_the_next(tmp_path: Path) -> None:
    environ = {
        "RACKWARD_RACK": "\x1b",
        "RACKWARD_RACK_FILE": str(tmp_path / "absent"),
        "RACKWARD_RACK_FROM": "command:echo found",
    }
    found = search_patiently(sources(environ))
    assert (found.rack, found.source) == ("found", "command echo")
    assert [failure.source for failure in found.failures] == [
        "RACKWARD_RACK",
        f"file {tmp_path / 'absent'}",
    ]


def test_blank_variables_are_not_set() -> None:
    blank = dict.fromkeys(("RACKWARD_RACK", "RACKWARD_RACK_FILE", "RACKWARD_RACK_FROM"), " \n")
    found = search_patiently(sources(blank))
    assert (found.rack, found.failures, found.silent) == (None, (), ())


def test_unasked_nobody_is_called_and_nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("nobody asked for it")

    monkeypatch.setattr(http.client.HTTPConnection, "connect", refuse)
    monkeypatch.setattr(subprocess, "Popen", refuse)
    assert search_patiently(sources({})).failures == ()
    # The trap is set.
    (failure,) = search_patiently(sources({"RACKWARD_RACK_FROM": "gce"})).failures
    assert "nobody asked for it" in failure.why


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"RACKWARD_RACK_FROM": "aws"}, "there is no source of racks 'aws': choose one of aws-z"),
        ({"RACKWARD_RACK_FROM": "comand:a secret"}, "there is no source of racks 'comand'"),
        ({"RACKWARD_RACK_FROM": "command:'"}, "the command for the rack cannot be read"),
        (
            {"RACKWARD_RACK_FROM": "gce", "RACKWARD_METADATA_ENDPOINT": "here"},
            "the endpoint of a metadata service is 'here'",
        ),
    ],
)
def test_names_that_are_none(environ: dict[str, str], told: str) -> None:
    (failure,) = search_patiently(sources(environ)).failures
    assert failure.source == "RACKWARD_RACK_FROM"
    assert told in failure.why
    assert "secret" not in failure.why
    with pytest.raises(InvalidOptionError, match=told):
        discover(environ["RACKWARD_RACK_FROM"], environ=environ)


@pytest.mark.parametrize("timeout", [0, -1, 2.6, float("nan")])
def test_time_outs_that_cannot_be(timeout: float) -> None:
    with pytest.raises(InvalidOptionError, match=r"more than 0 and at most 2\.5"):
        discover("gce", timeout=timeout)


def test_the_endpoint_given_goes_before_the_environments() -> None:
    with MetadataServer() as server:
        environ = {"RACKWARD_METADATA_ENDPOINT": "http://127.0.0.1:9"}
        assert (
            discover("gce", endpoint=server.url, environ=environ).ask(PATIENCE) == "europe-west1-b"
        )
