"""The configuration of ``rackward controller``: valid and invalid ones."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from placement_core import RackwardError
from rackward.cli.controller import EPILOG
from rackward.cli.main import app

GUIDE = Path(__file__).parents[3] / "docs" / "controller.md"
SERVER = "127.0.0.1:1"


def controller(folder: Path, *arguments: str, **settings: object) -> None:
    path = folder / "controller.json"
    path.write_text(json.dumps({"cluster": {"bootstrap_servers": SERVER}, **settings}))
    app(["controller", "--config", str(path), *arguments], standalone_mode=False)


def test_check_of_a_valid_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    controller(tmp_path, "--check", placement={"placer": "multi-level", "properties": {"seed": 3}})
    assert capsys.readouterr().out == f"{tmp_path / 'controller.json'}: valid\n"


def test_the_configurations_in_help_and_guide_are_valid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    guide = re.search(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert guide is not None
    from_help = EPILOG[EPILOG.index("  cluster:") : EPILOG.index("Exit status")]
    (tmp_path / "client.properties").write_text("client.id=controller\n")
    path = tmp_path / "controller.yaml"
    for shown in (guide[1], from_help):
        path.write_text(shown)
        app(["controller", "--config", str(path), "--check"], standalone_mode=False)
        assert capsys.readouterr().out == f"{path}: valid\n"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"placement": {"placer": "unknown"}}, "placement: there is no placer 'unknown'"),
        ({"placement": {"properties": {"sed": 1}}}, "has no property sed"),
        ({"placement": {"locator": "nowhere"}}, "there is no rack locator 'nowhere'"),
        ({"service": {"listen": "0.0.0.0:0"}, "health": {"listen": "off"}}, "mutual TLS"),
        (
            {
                "service": {
                    "listen": "127.0.0.1:0",
                    "ca_file": "absent.pem",
                    "cert_file": "absent.pem",
                },
                "health": {"listen": "off"},
            },
            "absent.pem",
        ),
        (
            {"service": {"listen": "off"}, "health": {"listen": "192.0.2.1:9481"}},
            "the health port 192.0.2.1:9481 cannot be opened",
        ),
    ],
)
def test_errors_are_one_line(tmp_path: Path, settings: dict[str, object], message: str) -> None:
    with pytest.raises(RackwardError) as raised:
        controller(tmp_path, **settings)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RackwardError, match=r"absent\.yaml cannot be read"):
        app(["controller", "--config", str(tmp_path / "absent.yaml")], standalone_mode=False)
