"""Racks out of files, as Kubernetes mounts them and as people mistake them."""

from __future__ import annotations

from pathlib import Path

import pytest

from assignors.discovery import SourceError
from assignors.discovery.file import FileSource

LABELS = """app="billing"
pod-template-hash="5d4f"
topology.kubernetes.io/region="us-east-1"
topology.kubernetes.io/zone="use1-az4"
zone-of-others="b\\"\\u00e9"
"""


def ask(text: str) -> str:
    return FileSource.named(text).ask(1.0)


@pytest.mark.parametrize(
    "content", ["use1-az4", "use1-az4\n", "\n  use1-az4 \r\n\n", "\ufeffuse1-az4"]
)
def test_the_rack_alone(tmp_path: Path, content: str) -> None:
    file = tmp_path / "zone"
    file.write_text(content, encoding="utf-8")
    assert ask(str(file)) == "use1-az4"


@pytest.mark.parametrize(
    ("key", "value"),
    [("topology.kubernetes.io/zone", "use1-az4"), ("app", "billing"), ("zone-of-others", 'b"é')],
)
def test_a_label(tmp_path: Path, key: str, value: str) -> None:
    file = tmp_path / "labels"
    file.write_text(LABELS)
    assert ask(f"{file}#{key}") == value


def test_a_path_with_a_number_sign(tmp_path: Path) -> None:
    file = tmp_path / "a#b"
    file.write_text("use1-az4")
    assert ask(f"{file}#") == "use1-az4"
    file.write_text(LABELS)
    assert ask(f"{file}#app") == "billing"


@pytest.mark.parametrize(
    ("content", "key", "told"),
    [
        (b"", "", "is empty"),
        (b" \n\n", "", "is empty"),
        (LABELS.encode(), "", "5 lines or labels where the rack alone is needed"),
        (b'app="billing"', "", "name one as FILE#KEY"),
        (b"first\nsecond", "", "2 lines"),
        (b"\xff\xfe", "", "is not UTF-8"),
        (b"\x00" * (11 << 20), "", "more than 1 MB"),
        (LABELS.encode(), "zone", 'has no line KEY="VALUE"'),
        (b"", "zone", "has no line KEY"),
        (b"zone=a", "zone", "no value in double quotes"),
        (b'zone="a', "zone", "no value in double quotes"),
        (b"zone=" + b"[" * 100_000, "zone", "no value in double quotes"),
        (b"zone", "zone", "no value in double quotes"),
    ],
)
def test_files_that_will_not_do(tmp_path: Path, content: bytes, key: str, told: str) -> None:
    file = tmp_path / "odd"
    file.write_bytes(content)
    with pytest.raises(SourceError, match=told) as error:
        ask(f"{file}#{key}" if key else str(file))
    # It may be a file of secrets that was named by mistake.
    assert "billing" not in str(error.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"No such file or directory.: mount it"):
        ask(str(tmp_path / "absent"))
    with pytest.raises(SourceError, match="Is a directory"):
        ask(str(tmp_path))
    with pytest.raises(SourceError, match="it is no path"):
        ask("a\0b")


def test_a_file_is_bounded_before_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "endless"
    with file.open("wb") as sparse:
        sparse.truncate(1 << 40)
    with pytest.raises(SourceError, match="more than 1 MB"):
        ask(str(file))


def test_names() -> None:
    assert FileSource.named("/etc/podinfo/zone").name == "file /etc/podinfo/zone"
    assert FileSource.named("/l#topology.kubernetes.io/zone").name == (
        "file /l#topology.kubernetes.io/zone"
    )
    assert FileSource.named("/a\nb" + "x" * 500).name.isprintable()
