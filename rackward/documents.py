"""Files of settings in YAML (the extra ``yaml``), JSON or TOML, as the file's suffix says."""

from __future__ import annotations

import importlib
import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from placement_core import RackwardError

MOST_BYTES = 16 << 20


class DocumentError(RackwardError, ValueError):
    """A file of settings cannot be read, or is not of the form that its name says."""


def read_document(path: Path) -> Any:
    """What is in a file of YAML, JSON or TOML. Raises DocumentError."""
    try:
        with path.expanduser().open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise DocumentError(f"{path} cannot be read: {why}") from error
    if len(content) > MOST_BYTES:
        raise DocumentError(f"{path} has more than {MOST_BYTES >> 20} MB: name another file")
    match path.suffix.lower():
        case ".json":
            return _parsed(path, "JSON", lambda: json.loads(text), ValueError)
        case ".toml":
            return _parsed(path, "TOML", lambda: tomllib.loads(text), tomllib.TOMLDecodeError)
        case ".yaml" | ".yml":
            yaml: Any
            try:
                yaml = importlib.import_module("yaml")
            except ImportError:
                raise DocumentError(
                    f"{path}: YAML needs PyYAML: pip install 'rackward[yaml]', or write TOML"
                ) from None
            return _parsed(path, "YAML", lambda: yaml.safe_load(text), yaml.YAMLError)
        case _:
            raise DocumentError(f"{path}: name it .yaml, .json or .toml, after what it holds")


def _parsed(path: Path, kind: str, parse: Callable[[], Any], fault: type[Exception]) -> Any:
    try:
        return parse()
    except (fault, RecursionError) as error:
        # What parsers quote of the file may be a password.
        raise DocumentError(f"{path} is not {kind}: {_where(error)}") from error


def _where(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        return f"see line {mark.line + 1}, column {mark.column + 1}"
    line = getattr(error, "lineno", None)
    return f"see line {line}" if line else "check its punctuation"
