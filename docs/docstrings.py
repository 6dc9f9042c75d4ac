"""Docstrings as Markdown for the API reference: `mkdocs.yml` names this extension of griffe."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":\w+:`~?([^`]+)`")
_TERM = re.compile(r"^([\w, ]+)\n {4}(?=\S)", re.MULTILINE)


class Docstrings(griffe.Extension):  # type: ignore[misc]
    """Rewrites roles, literal blocks and definition lists of reStructuredText in docstrings."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of ``obj``."""
        if obj.docstring is not None:
            text = _ROLE.sub(r"`\1`", obj.docstring.value)
            text = re.sub(r"::(?=\n\n)", ":", text)
            obj.docstring.value = _TERM.sub(r"\n\1\n:   ", text)
