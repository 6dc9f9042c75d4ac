"""Configuration files in YAML (the extra ``yaml``), JSON or TOML, checked against msgspec Structs.

`load` parses a file by its suffix; `convert` turns the document, or a part of it, into a Struct.
Every error names the file, the setting and its value, and what to write instead. What to write is
the ``description`` in the setting's annotation, for example::

    Count = Annotated[int, Meta(ge=1, le=100, description="a number from 1 to 100")]

Text that a parser quotes, and mappings and lists, are never shown: they may hold secrets.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

import msgspec
from msgspec import Meta

from placement_core import RackwardError

MAX_BYTES = 16 << 20

Text = Annotated[str, Meta(min_length=1, description="a text")]
Texts = Annotated[Text | list[Text], Meta(description="a text, or a list of texts")]
Flag = Annotated[bool, Meta(description="true or false")]
Properties = Annotated[dict[Any, Any], Meta(description="properties, each as NAME: VALUE")]

Converted = TypeVar("Converted", bound=msgspec.Struct)


class ConfigError(RackwardError, ValueError):
    """A configuration file cannot be read, or one of its settings is not valid."""


def load(path: Path) -> Any:
    """Return the document in a YAML, JSON or TOML file. Raises ConfigError."""
    text = read_text(path, MAX_BYTES)
    match path.suffix.lower():
        case ".json":
            return _parse(path, "JSON", json.loads, text, ValueError)
        case ".toml":
            return _parse(path, "TOML", tomllib.loads, text, tomllib.TOMLDecodeError)
        case ".yaml" | ".yml":
            yaml: Any
            try:
                yaml = importlib.import_module("yaml")
            except ImportError:
                raise ConfigError(
                    f"{path}: YAML needs PyYAML: pip install 'rackward[yaml]', or use TOML"
                ) from None
            return _parse(path, "YAML", yaml.safe_load, text, yaml.YAMLError)
    raise ConfigError(f"{path}: the name of the file has to end in .yaml, .json or .toml")


def read_text(path: Path | None, max_bytes: int) -> str:
    """Return the text of a file, or (None) of standard input. Raises ConfigError."""
    name = "standard input" if path is None else str(path)
    try:
        if path is None:
            content = sys.stdin.buffer.read(max_bytes + 1)
        else:
            with path.expanduser().open("rb") as file:
                content = file.read(max_bytes + 1)
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{name} cannot be read: {reason}") from error
    if len(content) > max_bytes:
        raise ConfigError(f"{name} is larger than {max_bytes >> 20} MB: give another file")
    return text


def convert(document: Any, to: type[Converted], where: str) -> Converted:
    """Return the document as a Struct of type ``to``; settings of null count as left out.

    ``where`` begins every error: the file, and the place in it. Raises ConfigError, also for a
    ValueError of a Struct's ``__post_init__``.
    """
    document = _without_nulls({} if document is None else document)
    try:
        return msgspec.convert(document, to)
    except msgspec.ValidationError as error:
        raise ConfigError(_explain(error, document, to, where)) from error


def properties_as_text(properties: Mapping[Any, Any]) -> dict[str, str]:
    """Return names and values as text, booleans in lower case, as plug-ins take them."""
    return {
        str(key): str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in properties.items()
    }


def _parse(
    path: Path, format: str, parse: Callable[[str], Any], text: str, fault: type[Exception]
) -> Any:
    try:
        return parse(text)
    except (fault, RecursionError) as error:
        # All three parsers write the place into the message; YAML's first where something began.
        places = re.findall(r"line (\d+),? column (\d+)", str(error))
        hint = "see line {}, column {}".format(*places[-1]) if places else "check its punctuation"
        if "end of document" in str(error):
            hint = f"see line {len(text.splitlines())}, which is not complete"
        raise ConfigError(f"{path} is not valid {format}: {hint}") from error


def _without_nulls(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {key: _without_nulls(entry) for key, entry in value.items() if entry is not None}


def _explain(error: msgspec.ValidationError, document: Any, to: Any, where: str) -> str:
    """Return the fault in a document that does not convert, found by converting its settings."""
    if not isinstance(document, Mapping):
        return f"{where}: write settings here, each as NAME: VALUE"
    if get_origin(to) is dict:
        types = dict.fromkeys(document, get_args(to)[1])
    else:
        types = {field.name: field.type for field in msgspec.structs.fields(to)}
    for name, value in document.items():
        if name not in types:
            return f"{where}: unknown setting {name!r}; the settings are {', '.join(types)}"
        try:
            msgspec.convert(value, types[name])
        except msgspec.ValidationError as fault:
            if (section := _section_in(types[name])) is not None:
                return _explain(fault, value, section, f"{where}: {name}")
            shown = "not valid" if isinstance(value, Mapping | list) else repr(value)
            return f"{where}: {name} is {shown}: write {_description(types[name])}"
    return f"{where}: {error}"


def _section_in(annotation: Any) -> Any:
    """Return the Struct, or dict of Structs, in an annotation, such as ``Struct | None``."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return annotation
    section = next(filter(None, map(_section_in, get_args(annotation))), None)
    return annotation if section is not None and get_origin(annotation) is dict else section


def _description(annotation: Any) -> str:
    """Return the description in an annotation, the outermost one."""
    parts = get_args(annotation)
    for part in parts:
        if isinstance(part, Meta) and part.description:
            return part.description
    return next(filter(None, map(_description, parts)), "")
