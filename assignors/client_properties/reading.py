"""Properties, read as what they mean."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from assignors.client_properties.errors import ConnectionPropertyError
from assignors.client_properties.secret import Secret

_WORDS_OF_TRUTH = {"true": True, "1": True, "false": False, "0": False}
_PLACEHOLDER = re.compile(r"\$\{([^:}]+):[^}]*\}")


class Reading:
    """Typed access to properties; of several names for one thing the first that is there counts.

    A property that is None or blank is not there. Raises ConnectionPropertyError.
    """

    def __init__(self, properties: Mapping[str, object]) -> None:
        self._properties = properties
        providers = str(properties.get("config.providers") or "")
        self._providers = {each.strip() for each in providers.split(",") if each.strip()}

    def name(self, *names: str) -> str | None:
        """The first of the names that is there."""
        return next((name for name in names if self._raw(name).strip()), None)

    def text(self, *names: str) -> str | None:
        """A text without blanks around it."""
        name = self.name(*names)
        return None if name is None else self._raw(name).strip()

    def secret(self, *names: str) -> Secret | None:
        """A text as it was written, blanks included, that is not to be shown."""
        name = self.name(*names)
        return None if name is None else Secret(self._raw(name))

    def truth(self, name: str) -> bool | None:
        """True or false."""
        text = self.text(name)
        if text is None:
            return None
        if (truth := _WORDS_OF_TRUTH.get(text.lower())) is None:
            raise ConnectionPropertyError(name, f"{text!r} is neither true nor false")
        return truth

    def number(self, *names: str, least: int = 0) -> int | None:
        """A whole number, ``least`` or more."""
        name = self.name(*names)
        if name is None:
            return None
        text = self._raw(name).strip()
        if not re.fullmatch(r"-?[0-9]{1,18}", text) or int(text) < least:
            raise ConnectionPropertyError(name, f"{text!r} is not a whole number from {least} on")
        return int(text)

    def choice(self, name: str, choices: Sequence[str]) -> str | None:
        """One of ``choices``, in whatever case it was written."""
        text = self.text(name)
        if text is None:
            return None
        for choice in choices:
            if text.lower() == choice.lower():
                return choice
        raise ConnectionPropertyError(name, f"{text!r} is none of {', '.join(choices)}")

    def said(self, name: str) -> bool:
        """Whether the property is there, be it blank."""
        return self._properties.get(name) is not None

    def _raw(self, name: str) -> str:
        value = self._properties.get(name)
        text = "" if value is None else str(value)
        for provider in _PLACEHOLDER.findall(text):
            if provider in self._providers:
                raise ConnectionPropertyError(
                    name,
                    f"it takes its value from the configuration provider {provider}, which only "
                    "Java has: write the value, or let a tool fill it in",
                )
        return text
