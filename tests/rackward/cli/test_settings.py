"""The file of settings, and the options that take their values from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from rackward.cli import settings
from rackward.cli.main import COMMANDS, app
from rackward.cli.settings import Settings, default_file, option_defaults, read_settings
from rackward.config_files import ConfigError


def _commands(command: Any) -> Iterator[Any]:
    yield command
    for each in getattr(command, "commands", {}).values():
        yield from _commands(each)


def _root_command(name: str) -> Any:
    root: Any = typer.main.get_command(app)
    return root.get_command(typer.Context(root), name)


def test_each_setting_is_an_option_with_its_variable() -> None:
    variables = {
        option.envvar
        for name in COMMANDS
        for command in _commands(_root_command(name))
        for option in command.params
        if option.envvar
    }
    assert variables == {
        f"RACKWARD_{each.name.upper()}" for each in msgspec.structs.fields(Settings)
    }


def test_a_file_in_each_format(tmp_path: Path) -> None:
    texts = {
        "a.toml": 'timeout = 3\nbootstrap_server = "kafka:9092"',
        "a.yaml": "timeout: 3\nbootstrap_server: kafka:9092\nprices:",
        "a.json": '{"timeout": 3, "bootstrap_server": "kafka:9092"}',
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        assert read_settings({"RACKWARD_CONFIG_FILE": str(tmp_path / name)}) == {
            "RACKWARD_BOOTSTRAP_SERVER": "kafka:9092",
            "RACKWARD_TIMEOUT": 3.0,
        }


def test_files_are_looked_up_in_the_folder_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "client.properties").touch()
    (tmp_path / "a.toml").write_text('command_config = "client.properties"\nprices = "plug-in"')
    assert read_settings({"RACKWARD_CONFIG_FILE": str(tmp_path / "a.toml")}) == {
        "RACKWARD_COMMAND_CONFIG": str(tmp_path / "client.properties"),
        "RACKWARD_PRICES": "plug-in",
    }


def test_a_named_file_has_to_exist_the_default_need_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_settings({"RACKWARD_CONFIG_FILE": str(tmp_path / "none.toml")})
    monkeypatch.setattr(settings, "default_file", lambda: tmp_path / "config.toml")
    assert read_settings({}) == {}
    (tmp_path / "config.toml").write_text("timeout = 5")
    assert read_settings({}) == {"RACKWARD_TIMEOUT": 5.0}


def test_default_file_is_in_the_users_config_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert default_file().name == "config.toml"
    assert default_file().parent.name == "rackward"


CONTEXTS = """
timeout = 3
[contexts.prod]
bootstrap_server = "kafka:9092"
timeout = 9
[contexts.test]
bootstrap_server = "localhost:9092"
"""


def test_a_context_overrides_the_other_settings(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(CONTEXTS)
    environment = {"RACKWARD_CONFIG_FILE": str(tmp_path / "a.toml")}
    assert read_settings(environment) == {"RACKWARD_TIMEOUT": 3.0}
    assert read_settings(environment, "prod") == {
        "RACKWARD_BOOTSTRAP_SERVER": "kafka:9092",
        "RACKWARD_TIMEOUT": 9.0,
    }
    assert read_settings(environment, "test")["RACKWARD_TIMEOUT"] == 3.0


@pytest.mark.parametrize(
    ("text", "context", "message"),
    [
        ("timeout = 0", None, "timeout is 0: write a number of seconds from 0.1 to 3600"),
        ("timeout = 'long'", None, "timeout is 'long': write a number of seconds"),
        ("currency = ''", None, "currency is '': write a text"),
        ("timeut = 3", None, "unknown setting 'timeut'; the settings are bootstrap_server, comm"),
        ("prices = 'a'\ntimeout", None, "is not valid TOML: see line 2, which is not complete"),
        ("prices = 'a'\ntimeout = \n", None, "is not valid TOML: see line 2, column 11"),
        ("[contexts.prod]\ntimeut = 3", "prod", "unknown setting 'timeut'"),
        ("timeout = 3", "none", "no context 'none'; the contexts are: none"),
        (CONTEXTS, "none", "no context 'none'; the contexts are: prod, test"),
        (CONTEXTS, "prod", "the context 'prod' has timeout, but RACKWARD_TIMEOUT is set"),
    ],
)
def test_errors_name_the_file_and_the_setting(
    tmp_path: Path, text: str, context: str | None, message: str
) -> None:
    path = tmp_path / "a.toml"
    path.write_text(text)
    environment = {"RACKWARD_CONFIG_FILE": str(path), "RACKWARD_TIMEOUT": "7"}
    with pytest.raises(ConfigError) as raised:
        read_settings(environment, context)
    assert str(raised.value).startswith(f"RACKWARD_CONFIG_FILE: {path}")
    assert message in str(raised.value)


def test_subcommands_get_settings_of_their_options() -> None:
    values = {"RACKWARD_TIMEOUT": 5.0, "RACKWARD_SPARK_MASTER": "local[1]"}
    traffic = option_defaults(_root_command("traffic"), values)
    assert traffic["run"] == {"master": "local[1]"}
    assert traffic["collect"] == {"timeout": 5.0}
    # The demo's own --bootstrap-server is no setting: it must not run on a cluster by accident.
    assert option_defaults(_root_command("demo"), {"RACKWARD_BOOTSTRAP_SERVER": "kafka:9092"}) == {}


@pytest.mark.parametrize(
    ("arguments", "variables", "server"),
    [
        (["groups", "list"], {}, "localhost:1"),
        (["groups", "list"], {"RACKWARD_BOOTSTRAP_SERVER": "localhost:2"}, "localhost:2"),
        (
            ["groups", "list", "--bootstrap-server", "localhost:3"],
            {"RACKWARD_BOOTSTRAP_SERVER": "localhost:2"},
            "localhost:3",
        ),
        (["groups", "list"], {"RACKWARD_CONTEXT": "prod"}, "localhost:4"),
        (["--context", "prod", "groups", "list"], {}, "localhost:4"),
    ],
)
def test_options_override_variables_and_variables_the_file(
    tmp_path: Path, arguments: list[str], variables: dict[str, str], server: str
) -> None:
    path = tmp_path / "a.toml"
    prod = '[contexts.prod]\nbootstrap_server = "localhost:4"'
    path.write_text(f'bootstrap_server = "localhost:1"\ntimeout = 1\n{prod}')
    result = CliRunner().invoke(
        app, arguments, env={"RACKWARD_CONFIG_FILE": str(path), **variables}
    )
    assert result.exit_code == 1
    assert f"{server} refused the connection" in str(result.exception)
