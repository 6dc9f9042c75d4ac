"""JSON taken at its word: every field is there, is of its kind, and is known.

A plan may be edited by hand. What is misspelt, left out or cut off must not be carried out
without what it was to say, so every reader here names the place where it stumbles.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from rackward.plans.errors import PlanFileError

Value = TypeVar("Value")
_MOST_SHOWN = 60


def parse_json(source: str, text: str) -> object:
    """The JSON of ``text``, which ``source`` names in errors. Raises PlanFileError."""
    if not text.strip():
        raise PlanFileError(f"{source} is empty: a plan is needed")
    try:
        return json.loads(
            text,
            object_pairs_hook=lambda pairs: _object(source, pairs),
            parse_constant=lambda name: _refuse(source, name),
        )
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text.rstrip())
        raise PlanFileError(
            f"{source} is not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
            + (", where it ends: it was cut off; write it again" if cut else "")
        ) from error
    except RecursionError as error:
        raise PlanFileError(f"{source} is no plan: it is nested too deeply") from error


class Fields:
    """One object of a plan, field by field; ``done`` says that there are no others."""

    def __init__(self, source: str, where: str, found: object) -> None:
        self._source, self._where = source, where
        if not isinstance(found, dict):
            raise self.fault("", f"is {shown(found)}: an object is needed")
        self._left: dict[str, Any] = dict(found)

    def take(self, name: str, kind: str, check: Callable[[Any], bool]) -> Any:
        """The field's value. Raises PlanFileError where it is absent or ``check`` says no."""
        if name not in self._left:
            raise self.fault(name, "is missing")
        value = self._left.pop(name)
        if not check(value):
            raise self.fault(name, f"is {shown(value)}: {kind} is needed")
        return value

    def text(self, name: str) -> str:
        """A text that is not empty."""
        found: str = self.take(name, "a text", is_text)
        return found

    def text_or_none(self, name: str) -> str | None:
        """A text that is not empty, or null."""
        found: str | None = self.take(
            name,
            "a text or null",
            lambda value: value is None or is_text(value),
        )
        return found

    def count(self, name: str) -> int:
        """A whole number from 0."""
        found: int = self.take(name, "a whole number from 0", is_count)
        return found

    def count_or_none(self, name: str, least: int = 0) -> int | None:
        """A whole number from ``least``, or null."""
        found: int | None = self.take(
            name,
            f"a whole number from {least}, or null,",
            lambda value: value is None or (is_count(value) and value >= least),
        )
        return found

    def member(self, name: str, kinds: type[Value]) -> Value:
        """One of the values of an enumeration."""
        known = [each.value for each in kinds]  # type: ignore[attr-defined]
        value = self.take(name, f"one of {', '.join(known)}", lambda value: value in known)
        return kinds(value)  # type: ignore[call-arg]

    def brokers(self, name: str) -> tuple[int, ...]:
        """Broker ids, at least one and each once."""
        found = self.take(
            name,
            "a list of broker ids",
            lambda value: isinstance(value, list) and bool(value) and all(map(is_count, value)),
        )
        if len(set(found)) < len(found):
            raise self.fault(name, f"names a broker twice: {shown(found)}")
        return tuple(found)

    def mapping(self, name: str) -> dict[str, Any]:
        """An object whose keys are not prescribed."""
        found: dict[str, Any] = self.take(name, "an object", lambda value: isinstance(value, dict))
        return found

    def object(self, name: str) -> Fields:
        """An object with fields of its own."""
        return Fields(self._source, self._path(name), self.take(name, "an object", _anything))

    def rows(self, name: str) -> Iterator[Fields]:
        """A list of objects."""
        found = self.take(name, "a list", lambda value: isinstance(value, list))
        for number, row in enumerate(found):
            yield Fields(self._source, f"{self._path(name)}[{number}]", row)

    def done(self) -> None:
        """Raise PlanFileError where the object has fields that nobody took."""
        for name in sorted(self._left):
            raise self.fault(name, "is not known: remove or correct it")

    def fault(self, name: str, problem: str) -> PlanFileError:
        """The error that says what is wrong with a field ("": with the object itself)."""
        place = self._path(name) if name else self._where
        return PlanFileError(f"{self._source}: {place or 'the plan'} {problem}")

    def _path(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name


def is_count(value: object) -> bool:
    """A whole number from 0, and not a truth value."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_text(value: object) -> bool:
    """A text that is not empty."""
    return isinstance(value, str) and bool(value)


def shown(value: object) -> str:
    """The value as in the file, cut short."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 3]}..."


def _anything(_value: object) -> bool:
    return True


def _object(source: str, pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise PlanFileError(f"{source}: the field {key} comes twice in one object: keep one")
        found[key] = value
    return found


def _refuse(source: str, name: str) -> None:
    raise PlanFileError(f"{source}: {name} is no number that a plan may hold")
