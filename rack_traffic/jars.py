"""SHA-256 checksums of the jars that rackward downloads, pinned for its default versions.

Maven repositories have a checksum beside each jar, which only shows whether the download is
complete: a mirror that serves another jar serves its checksum, too. Pinned ones are in files of
sha256sum's format.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

SPARK_JARS = Path(__file__).with_name("spark-4.0.0-jars.sha256")
"""The jars of Spark's Kafka connector 4.0.0 and of Delta Lake 4.0.0, as Ivy names them."""


def read_checksums(path: Path) -> dict[str, str]:
    """Return file name to SHA-256, from a file of sha256sum's format."""
    rows = (line.split() for line in path.read_text(encoding="ascii").splitlines())
    return {name: checksum for checksum, name in rows}


def checksum_problem(jars: Iterable[Path], pinned: Mapping[str, str]) -> str | None:
    """Return what is wrong with the first of ``jars`` that is not as pinned; None if all are."""
    for jar in jars:
        expected = pinned.get(jar.name)
        if expected is None:
            return f"{jar.name} is not among the expected jars"
        with jar.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != expected:
            return f"the SHA-256 of {jar.name} is {found}, and {expected} is expected"
    return None
