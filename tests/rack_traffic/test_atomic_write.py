"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rack_traffic.atomic_write import write_atomically


def test_the_content_replaces_an_older_file(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("older")
    with write_atomically(path) as file:
        file.write(b"newer")
        assert path.read_text() == "older"
    assert path.read_text() == "newer"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_the_older_file_and_no_temporary_one(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("older")
    with pytest.raises(KeyboardInterrupt), write_atomically(path) as file:  # noqa: PT012
        file.write(b"half of the")
        raise KeyboardInterrupt
    assert path.read_text() == "older"
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_has_the_permissions_of_a_new_file(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with write_atomically(tmp_path / "plan.json") as file:
            file.write(b"{}")
    finally:
        os.umask(before)
    assert (tmp_path / "plan.json").stat().st_mode & 0o777 == 0o640


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), write_atomically(tmp_path / "absent" / "plan.json"):
        pass


def test_a_device_is_not_replaced(tmp_path: Path) -> None:
    device = tmp_path / "pipe"
    os.mkfifo(device)
    reader = os.open(device, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with write_atomically(device) as file:
            file.write(b"content")
        assert os.read(reader, 100) == b"content"
    finally:
        os.close(reader)
    assert device.is_fifo()
