"""Which files of a folder count, where Spark's streaming wrote it.

A streaming query that writes files keeps a log of the batches that it has finished, in
``_spark_metadata`` of the folder; files of a batch that was killed stay in the folder, and are not
in that log. Who reads the folder without Spark has to leave them out, or counts them twice. The log
is Spark's ``FileStreamSinkLog``: files named by batch number, ``N.compact`` being all up to N; a
line of version, then one JSON object per file.
"""

from __future__ import annotations

import json
from posixpath import basename
from urllib.parse import unquote, urlparse

import pyarrow as pa
from pyarrow import fs

LOG = "_spark_metadata"


def committed(filesystem: fs.FileSystem, folder: str) -> frozenset[str] | None:
    """Names of the files that count in ``folder``; None where there is no such log.

    Names are told apart without their folders, since a folder may have been moved: Spark's have a
    unique id in them. Raises ValueError where the log cannot be understood, OSError where it cannot
    be read.
    """
    where = f"{folder.rstrip('/')}/{LOG}"
    if filesystem.get_file_info(where).type != fs.FileType.Directory:
        return None
    batches: dict[int, str] = {}
    compact: dict[int, str] = {}
    for info in filesystem.get_file_info(fs.FileSelector(where)):
        name = basename(info.path)
        number, _, kind = name.partition(".")
        if number.isdigit() and kind in ("", "compact"):
            (compact if kind else batches)[int(number)] = info.path
    start = max(compact, default=-1)
    paths = [compact[start]] if compact else []
    paths += [path for number, path in sorted(batches.items()) if number > start]
    counted: set[str] = set()
    for path in paths:
        _apply(_lines(filesystem, path), counted)
    return frozenset(counted)


def _apply(lines: list[str], counted: set[str]) -> None:
    if not lines or not lines[0].startswith("v"):
        raise ValueError(f"{LOG} is of an unknown version: {lines[:1]}")
    for line in lines[1:]:
        entry = json.loads(line)
        name = basename(unquote(urlparse(entry["path"]).path))
        if entry.get("action", "add") == "add":
            counted.add(name)
        else:
            counted.discard(name)


def _lines(filesystem: fs.FileSystem, path: str) -> list[str]:
    stream: pa.NativeFile
    with filesystem.open_input_stream(path) as stream:
        return [line for line in stream.read().decode().splitlines() if line]
