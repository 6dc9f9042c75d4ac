"""Racks out of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from placement_core import InvalidOptionError
from placement_core.locators import LocatorError, locate
from rackward.locators import FileLocator, load_locator
from tests.placement_core.placers.views import cluster

VIEW = cluster([None, None])
AB = {0: "a", 1: "b"}
TEXTS = {
    "racks.properties": "0=a\n1=b\n",
    "racks.JSON": '{"0": "a", "1": "b"}',
    "racks.yaml": "0: a\n1: b\n",
    "racks.yml": "0: a\n1: b\n",
    "racks": "0=a\n1=b\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_suffix_says_the_format(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(TEXTS[name], encoding="utf-8")
    assert locate(load_locator("file", {"path": str(path)}), VIEW).racks() == AB


def test_a_format_given_goes_before_the_suffix(tmp_path: Path) -> None:
    path = tmp_path / "racks.json"
    path.write_text("\ufeff0=a\n1=b", encoding="utf-8")
    given = {"path": str(path), "format": "properties"}
    assert locate(load_locator("file", given), VIEW).racks() == AB


def test_it_is_read_anew_each_time(tmp_path: Path) -> None:
    path = tmp_path / "racks"
    locator = FileLocator(path)
    for racks in ("ab", "cd"):
        path.write_text("\n".join(f"{broker}={rack}" for broker, rack in enumerate(racks)))
        assert locate(locator, VIEW).racks() == dict(enumerate(racks))


def test_what_cannot_be_read_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "racks.json"
    locator = FileLocator(path)
    with pytest.raises(LocatorError, match=r"racks\.json cannot be read: No such file"):
        locate(locator, VIEW)
    path.write_bytes(b"\xff")
    with pytest.raises(LocatorError, match="cannot be read: it is not UTF-8"):
        locate(locator, VIEW)
    path.write_text("[]")
    with pytest.raises(LocatorError, match=r"racks\.json: the JSON is not an object"):
        locate(locator, VIEW)
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(LocatorError, match="more than 16 MB"):
        locate(locator, VIEW)
    with pytest.raises(LocatorError, match="cannot be read: Is a directory"):
        locate(FileLocator(tmp_path), VIEW)


def test_properties() -> None:
    with pytest.raises(InvalidOptionError, match="file needs the property path"):
        load_locator("file")
    with pytest.raises(InvalidOptionError, match="no format 'xml'"):
        load_locator("file", {"path": "x", "format": "xml"})
