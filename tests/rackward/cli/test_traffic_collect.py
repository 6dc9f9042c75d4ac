"""Options of ``rackward traffic collect`` that are checked before anything is created."""

from __future__ import annotations

from pathlib import Path

import pytest

from placement_core import InvalidOptionError
from rackward.cli.main import app


def collect(*arguments: str) -> None:
    app(["traffic", "collect", *arguments], standalone_mode=False)


def test_repeated_names_are_refused_before_folder_is_created(tmp_path: Path) -> None:
    folder = tmp_path / "snapshots"
    with pytest.raises(InvalidOptionError, match="two clusters have the name 'east'"):
        collect("--cluster", "east=h:1", "--cluster", "east=h:2", "--once", "-o", str(folder))
    assert not folder.exists()


def test_a_name_repeated_in_the_file_is_an_error(tmp_path: Path) -> None:
    clusters = tmp_path / "clusters.json"
    clusters.write_text('{"clusters": {"east": {"bootstrap_servers": "h:1"}}}')
    folder = tmp_path / "snapshots"
    with pytest.raises(InvalidOptionError, match="two clusters have the name 'east'"):
        collect("--cluster", "east=h:1", "--clusters", str(clusters), "-o", str(folder))
    assert not folder.exists()


@pytest.mark.parametrize("output", [(), ("--output", "folder", "--output-topic", "snapshots")])
def test_one_output_is_needed(output: tuple[str, ...]) -> None:
    with pytest.raises(InvalidOptionError, match="give either --output FOLDER or --output-topic"):
        collect("--cluster", "east=h:1", *output)
