"""``rackward rack``: what a consumer would find here."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from assignors.rack_discovery.resolve import search
from placement_core import InvalidOptionError
from rackward.cli.main import app
from tests.support.rack_plugin import install
from tests.support.rack_sources import MetadataServer
from tests.support.waiting import PATIENCE

UNSET = {
    f"RACKWARD_{name}": None for name in ("RACK", "RACK_FILE", "RACK_FROM", "METADATA_ENDPOINT")
}


def rack(*arguments: str, **environ: str) -> Result:
    said = {**UNSET, **{f"RACKWARD_{name}": value for name, value in environ.items()}}
    return CliRunner().invoke(app, ["rack", *arguments], env=said)


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who are asked may take their time, as no test here is about that."""
    for name in ("DEFAULT_SECONDS", "COMMAND_SECONDS"):
        monkeypatch.setattr(f"assignors.rack_discovery.resolve.{name}", PATIENCE)
    monkeypatch.setattr("rackward.cli.rack.search", partial(search, budget=PATIENCE))


def test_the_rack_alone_is_on_stdout(tmp_path: Path) -> None:
    file = tmp_path / "zone"
    file.write_text("use1-az4\n")
    answer = rack(RACK_FILE=str(file))
    assert (answer.exit_code, answer.stdout) == (0, "use1-az4\n")
    assert answer.stderr == f"From file {file}.\n"


def test_none() -> None:
    answer = rack()
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert answer.stderr.startswith("No rack: RACKWARD_RACK, RACKWARD_RACK_FILE and RACKWARD_RACK_")


def test_why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, mine="none")
    answer = rack(RACK_FILE="/no/such")
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert answer.stderr.splitlines() == [
        "No rack from file /no/such, which cannot be read (No such file or directory): mount it, or"
        " name another.",
        "No rack from plug-in mine (tests.support.rack_plugin:none), which knows of none.",
        "A consumer here starts without a rack.",
    ]


def test_from_asks_that_source_alone() -> None:
    with MetadataServer() as server:
        answer = rack("--from", "aws-zone-name", RACK="a", METADATA_ENDPOINT=server.url)
        assert (answer.exit_code, answer.stdout) == (0, "us-east-1a\n")
        assert answer.stderr == "From aws-zone-name.\n"
    answer = rack("--from", "aws-zone-name", RACK="a", METADATA_ENDPOINT=server.url)
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert "Connection refused" in answer.stderr


def test_json() -> None:
    answer = rack("--json", RACK_FILE="/no/such", RACK_FROM="command:echo b")
    assert answer.exit_code == 0
    assert json.loads(answer.stdout) == {
        "schema_version": 1,
        "command": "rack",
        "rack": "b",
        "source": "command echo",
        "failures": [
            {
                "source": "file /no/such",
                "why": "cannot be read (No such file or directory): mount it, or name another",
            }
        ],
        "silent": [],
    }


def test_json_of_none() -> None:
    answer = rack("--json")
    assert answer.exit_code == 1
    assert json.loads(answer.stdout) == {
        "schema_version": 1,
        "command": "rack",
        "rack": None,
        "source": None,
        "failures": [],
        "silent": [],
    }


def test_a_name_that_is_none_is_an_error_of_usage() -> None:
    answer = rack("--from", "aws")
    # Which rackward.cli.main.main makes one line and exit status 2 of.
    assert isinstance(answer.exception, InvalidOptionError)
    assert "choose one of aws-zone-id" in str(answer.exception)
