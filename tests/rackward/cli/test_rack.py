"""``rackward rack``: the rack of a consumer on this host."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from assignors.rack_discovery.resolve import search
from placement_core import InvalidOptionError
from rackward.cli.main import app
from tests.support.rack_sources import install, metadata_server
from tests.support.waiting import TEST_TIMEOUT

UNSET = {
    f"RACKWARD_{name}": None for name in ("RACK", "RACK_FILE", "RACK_FROM", "METADATA_ENDPOINT")
}


def rack(*arguments: str, **environ: str) -> Result:
    variables = {**UNSET, **{f"RACKWARD_{name}": value for name, value in environ.items()}}
    return CliRunner().invoke(app, ["rack", *arguments], env=variables)


@pytest.fixture(autouse=True)
def long_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set long timeouts for the sources, so that slow machines do not exceed them."""
    for name in ("CLOUD_TIMEOUT", "COMMAND_TIMEOUT"):
        monkeypatch.setattr(f"assignors.rack_discovery.resolve.{name}", TEST_TIMEOUT)
    monkeypatch.setattr("rackward.cli.rack.search", partial(search, timeout=TEST_TIMEOUT))


def test_stdout_has_only_the_rack(tmp_path: Path) -> None:
    file = tmp_path / "zone"
    file.write_text("use1-az4\n")
    result = rack(RACK_FILE=str(file))
    assert (result.exit_code, result.stdout) == (0, "use1-az4\n")
    assert result.stderr == f"Source: file {file}.\n"


def test_no_source() -> None:
    result = rack()
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("No rack: RACKWARD_RACK, RACKWARD_RACK_FILE and RACKWARD_RACK_")


def test_reasons_for_no_rack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, mine="none")
    result = rack(RACK_FILE="/no/such")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [
        "No rack from file /no/such: it cannot be read (No such file or directory): mount the file,"
        " or give another path.",
        "No rack from plug-in mine (tests.support.rack_sources:none): it has none.",
        "A consumer on this host starts without a rack.",
    ]


def test_from_uses_only_that_source() -> None:
    with metadata_server() as server:
        result = rack("--from", "aws-zone-name", RACK="a", METADATA_ENDPOINT=server.url)
        assert (result.exit_code, result.stdout) == (0, "us-east-1a\n")
        assert result.stderr == "Source: aws-zone-name.\n"
    result = rack("--from", "aws-zone-name", RACK="a", METADATA_ENDPOINT=server.url)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Connection refused" in result.stderr


def test_json() -> None:
    result = rack("--json", RACK_FILE="/no/such", RACK_FROM="command:echo b")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "schema_version": 1,
        "command": "rack",
        "rack": "b",
        "source": "command echo",
        "failures": [
            {
                "source": "file /no/such",
                "why": "cannot be read (No such file or directory): mount the file, or give another"
                " path",
            }
        ],
        "silent": [],
    }


def test_an_unknown_source_is_a_usage_error() -> None:
    result = rack("--from", "aws")
    # rackward.cli.main.main prints it as one line and exits with status 2.
    assert isinstance(result.exception, InvalidOptionError)
    assert "choose one of aws-zone-id" in str(result.exception)
