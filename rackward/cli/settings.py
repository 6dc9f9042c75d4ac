"""A file with values for the options that commands share.

Each setting is also an option with an environment variable: ``timeout`` is ``--timeout`` and
``RACKWARD_TIMEOUT``. Options override variables, and variables override the file. A context of the
file has values for one cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from platformdirs import user_config_path

from rackward.config_files import ConfigError, Text, convert, load

FILE_VARIABLE = "RACKWARD_CONFIG_FILE"
MIN_TIMEOUT, MAX_TIMEOUT = 0.1, 3600.0
_Seconds = Annotated[
    float,
    Meta(
        ge=MIN_TIMEOUT,
        le=MAX_TIMEOUT,
        description=f"a number of seconds from {MIN_TIMEOUT} to {MAX_TIMEOUT:.0f}",
    ),
]


class Settings(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The settings of the file."""

    bootstrap_server: Text | None = None
    command_config: Text | None = None
    timeout: _Seconds | None = None
    mapping: Text | None = None
    rack_locator: Text | None = None
    rack_locator_properties: Text | None = None
    prices: Text | None = None
    prices_properties: Text | None = None
    currency: Text | None = None
    placement_service: Text | None = None
    spark_master: Text | None = None


class SettingsFile(Settings):
    """What the file holds: settings, and those of each context, which override them."""

    contexts: dict[Text, Settings] = {}


# Settings that may name a file. A relative name is looked up in the folder of the settings first.
_FILES = ("command_config", "prices")


def default_file() -> Path:
    """Return the file that is read if ``RACKWARD_CONFIG_FILE`` is not set."""
    return user_config_path("rackward", appauthor=False) / "config.toml"


def settings_file(environment: Mapping[str, str]) -> Path:
    """Return the file of settings: that of ``RACKWARD_CONFIG_FILE``, or the default one."""
    named = environment.get(FILE_VARIABLE)
    return Path(named).expanduser() if named else default_file()


def read_settings(environment: Mapping[str, str], context: str | None = None) -> dict[str, Any]:
    """Return the value of each environment variable for which the file has a setting.

    ``RACKWARD_CONFIG_FILE`` names the file, in TOML, YAML or JSON; without it the default file is
    read if there is one. Raises ConfigError, also if the file has no such context, or if a variable
    is set that would override a setting of the context: it would be for another cluster.
    """
    named = environment.get(FILE_VARIABLE)
    path = settings_file(environment)
    try:
        if not named and context is None and not path.is_file():
            return {}
        file = convert(load(path), SettingsFile, str(path))
        values: dict[str, Any] = msgspec.to_builtins(file)
        contexts = values.pop("contexts", {})
        if context is not None:
            if context not in contexts:
                names = ", ".join(contexts) or "none"
                raise ConfigError(f"{path}: no context {context!r}; the contexts are: {names}")
            for name in contexts[context]:
                if (variable := f"RACKWARD_{name.upper()}") in environment:
                    raise ConfigError(
                        f"{path}: the context {context!r} has {name}, but {variable} is set: unset "
                        "it, or give no context"
                    )
            values |= contexts[context]
    except ConfigError as error:
        if not named:
            raise
        raise ConfigError(f"{FILE_VARIABLE}: {error}") from error
    for name in _FILES:
        if name in values:
            beside = path.parent / Path(values[name]).expanduser()
            values[name] = str(beside) if beside.is_file() else values[name]
    return {f"RACKWARD_{name.upper()}": value for name, value in values.items()}


def option_defaults(command: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return click's ``default_map`` for a command and its subcommands.

    ``values`` are by environment variable. An option without a variable has no setting.
    """
    own = {each.name: values[each.envvar] for each in command.params if each.envvar in values}
    subcommands = getattr(command, "commands", {})
    return own | {name: option_defaults(each, values) for name, each in subcommands.items()}
