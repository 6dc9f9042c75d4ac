r"""A rack out of a file, such as Kubernetes mounts.

The file holds the rack and nothing else, as a field of the downward API does. Or it holds labels,
as the downward API writes ``metadata.labels``, one ``key="value"`` on each line, and the label's
key is given after a ``#``::

    /etc/podinfo/zone
    /etc/podinfo/labels#topology.kubernetes.io/zone

Source: Kubernetes, ``pkg/fieldpath`` (values are quoted as Go's ``%q`` does; those of labels have
nothing to escape).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from assignors.discovery.source import SourceError
from assignors.leading.shown import shown

MOST_BYTES = 1 << 20
"""The labels and annotations of a pod are well below it; something else was named."""

_LABEL = re.compile(r'[^\s=]+=".*"')


@dataclass(frozen=True, slots=True)
class FileSource:
    """The rack that the file at ``path`` holds, or its label ``key`` where that is not empty."""

    path: Path
    key: str = ""
    timeout: float = 1.0

    @classmethod
    def named(cls, text: str) -> FileSource:
        """From ``PATH`` or ``PATH#KEY``; a path with a ``#`` in it is written with one more."""
        path, mark, key = text.rpartition("#")
        return cls(Path(path), key.strip()) if mark else cls(Path(text))

    @property
    def name(self) -> str:
        """See RackSource."""
        return f"file {shown(str(self.path), 200)}{'#' if self.key else ''}{shown(self.key)}"

    def ask(self, seconds: float) -> str:  # noqa: ARG002
        """See RackSource. No message holds what is in the file."""
        try:
            with self.path.open("rb") as file:
                content = file.read(MOST_BYTES + 1)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no path"
            raise SourceError(f"cannot be read ({why}): mount it, or name another") from error
        if len(content) > MOST_BYTES:
            raise SourceError(f"has more than {MOST_BYTES >> 20} MB: name another")
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise SourceError("is not UTF-8: name another") from error
        lines = [line.strip() for line in text.split("\n") if line.strip()]
        return self._label(lines) if self.key else _only(lines)

    def _label(self, lines: list[str]) -> str:
        for line in lines:
            key, _, quoted = line.partition("=")
            if key == self.key:
                return _unquoted(quoted)
        raise SourceError(
            'has no line KEY="VALUE" with that key: see whether the pod has the label'
        )


def _only(lines: list[str]) -> str:
    if not lines:
        raise SourceError("is empty: write the rack into it")
    if len(lines) > 1 or _LABEL.fullmatch(lines[0]):
        raise SourceError(
            f"has {len(lines)} lines or labels where the rack alone is needed: if it holds labels,"
            " name one as FILE#KEY"
        )
    return lines[0]


def _unquoted(quoted: str) -> str:
    try:
        value = json.loads(quoted)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, str):
        raise SourceError('has no value in double quotes for that key: write KEY="VALUE"')
    return value
