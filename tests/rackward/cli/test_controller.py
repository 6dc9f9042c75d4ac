"""The configuration of ``rackward controller``: valid and invalid ones."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from placement_core import RackwardError
from rackward.cli.controller import EPILOG
from rackward.cli.main import app
from tests.support.security import make_authority

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
    authority = make_authority()
    signed = authority.sign("controller")
    for name, text in (
        ("ca.pem", authority.pem),
        ("controller.pem", signed.pem),
        ("controller.key", signed.key_pem()),
    ):
        (tmp_path / name).write_text(text)
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
            "health: cannot listen on 192.0.2.1: Cannot assign requested address",
        ),
        ({"health": {"listen": "127.0.0.1:9480"}}, "both listen on port 9480"),
        ({"health": {"listen": "127.0.0.1:99999"}}, "'127.0.0.1:99999': write HOST:PORT"),
        ({"health": {"listen": "no host:1"}}, "health: the host 'no host' to listen on"),
        (
            {"health": {"listen": "127.0.0.1:0", "ca_file": "none.pem", "cert_file": "none.pem"}},
            "health: ca_file: ",
        ),
        (
            {"cluster": {"bootstrap_servers": SERVER, "command_config": "client.properties"}},
            "security.protocol: 'SLS' is not one of",
        ),
        ({"cluster": {"bootstrap_servers": "no port"}}, "bootstrap.servers: "),
    ],
)
def test_check_refuses_what_start_refuses(
    tmp_path: Path, settings: dict[str, object], message: str
) -> None:
    (tmp_path / "client.properties").write_text("security.protocol=SLS\n")
    errors = []
    for arguments in ((), ("--check",)):
        with pytest.raises(RackwardError) as raised:
            controller(tmp_path, *arguments, **settings)
        errors.append(str(raised.value))
    assert message in errors[0]
    assert "\n" not in errors[0]
    assert errors[0] == errors[1]


def test_the_cluster_of_options_variables_and_contexts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the servers of the one that was used."""
    settings = tmp_path / "config.toml"
    settings.write_text('[contexts.prod]\nbootstrap_server = "context"\n')
    monkeypatch.setenv("RACKWARD_CONFIG_FILE", str(settings))
    with_cluster, without = (tmp_path / name for name in ("with.json", "without.json"))
    with_cluster.write_text('{"cluster": {"bootstrap_servers": "file"}}')
    without.write_text("{}")
    option = ("--bootstrap-server", "option")

    def refused(*arguments: str, context: tuple[str, ...] = ()) -> str:
        with pytest.raises(RackwardError) as raised:
            app([*context, "controller", "--check", *arguments], standalone_mode=False)
        return str(raised.value)

    assert "no cluster is given" in refused("--config", str(without))
    prod = ("--context", "prod")
    assert "'context'" in refused("--config", str(without), context=prod)
    monkeypatch.setenv("RACKWARD_BOOTSTRAP_SERVER", "variable")
    assert "'variable'" in refused("--config", str(without))
    assert "'file'" in refused("--config", str(with_cluster))
    for path in (with_cluster, without):
        assert "'option'" in refused("--config", str(path), *option)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RackwardError, match=r"absent\.yaml cannot be read"):
        app(["controller", "--config", str(tmp_path / "absent.yaml")], standalone_mode=False)
