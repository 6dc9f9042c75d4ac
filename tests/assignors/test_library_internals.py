"""The tables of private parts of client libraries, and their check."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from assignors import client_assignor, library_internals
from assignors.library_internals import UnsupportedClientError, check_internals
from placement_core import RackwardError
from tests.support.waiting import TEST_TIMEOUT


class Base:
    def __init__(self) -> None:
        self.inherited = 1


class Coordinator(Base):
    """A class of some release of a library."""

    class_attribute = ("once a class",)

    def __init__(self) -> None:
        super().__init__()
        self.group_id = "g"

    async def join(self, leader_id: Any, strategy: Any) -> None: ...


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that pretends that this release of a library is installed."""

    def install(version: str) -> None:
        monkeypatch.setattr(library_internals, "installed_version", lambda _: version)

    return install


def check(*declarations: str) -> None:
    check_internals({Coordinator: declarations}, "library>=1,<2")


def test_existing_internals_pass(install: Callable[[str], None]) -> None:
    install("1.5")
    check(
        "join", "join(self, leader_id, strategy)", "class_attribute", "self.group_id",
        "self.inherited",
    )  # fmt: skip


@pytest.mark.parametrize(
    "declaration",
    ["leave", "leave(self)", "join(self, response)", "class_attribute(group)", "self.generation"],
)
def test_missing_or_different_internals_are_refused(
    install: Callable[[str], None], declaration: str
) -> None:
    install("1.5")
    with pytest.raises(UnsupportedClientError) as refused:
        check("join", declaration)
    assert str(refused.value) == (
        f"library 1.5 has no Coordinator.{declaration}, which rackward relies on: install"
        " 'library>=1,<2', or a release of rackward that supports library 1.5"
    )
    assert issubclass(UnsupportedClientError, RackwardError)


ADAPTERS = pytest.mark.parametrize("adapter", ["kafka_python", "aiokafka"])


def internals_of(adapter: str) -> Any:
    return importlib.import_module(f"assignors.{adapter}.internals")


@ADAPTERS
def test_the_table_has_everything_that_the_coordinator_overrides(adapter: str) -> None:
    internals = internals_of(adapter)
    getattr(internals, f"check_{adapter}")()
    coordinator = importlib.import_module(f"assignors.{adapter}.coordinator").RackAwareCoordinator
    classes = coordinator.__mro__
    library_class = next(each for each in classes if each in internals.INTERNALS)
    subclasses = classes[: classes.index(library_class)]
    overridden = {
        name
        for each in subclasses
        for name, value in vars(each).items()
        if inspect.isfunction(value) and hasattr(library_class, name)
    } - {"__init__"}
    listed = {each.partition("(")[0] for each in internals.INTERNALS[library_class]}
    assert overridden <= listed


@ADAPTERS
def test_the_table_has_every_private_name_that_the_adapter_reads(adapter: str) -> None:
    internals = internals_of(adapter)
    files = [*Path(internals.__file__).parent.glob("*.py"), Path(client_assignor.__file__)]
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text()))]
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    own = {node.attr for node in attributes if isinstance(node.ctx, ast.Store)} | {
        node.name
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    private = {node.attr for node in attributes if re.match("_[a-z]", node.attr)}
    listed = {
        declaration.removeprefix("self.").partition("(")[0]
        for declarations in internals.INTERNALS.values()
        for declaration in declarations
    }
    assert private - own <= listed


@ADAPTERS
def test_unsupported_release_is_refused_by_the_assignor(
    adapter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    internals = internals_of(adapter)
    monkeypatch.setitem(internals.INTERNALS, Coordinator, ["renamed(self)"])
    getattr(internals, f"check_{adapter}").cache_clear()
    with pytest.raises(UnsupportedClientError, match=r"Coordinator\.renamed\(self\)") as refused:
        importlib.import_module(f"assignors.{adapter}").LeaderRackAwareRangeAssignor()
    distribution = adapter.replace("_", "-")
    assert str(refused.value).startswith(f"{distribution} {version(distribution)} ")
    assert internals.SUPPORTED in str(refused.value)


@ADAPTERS
def test_the_extra_requires_the_supported_releases(adapter: str) -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    extra = project["project"]["optional-dependencies"][adapter.replace("_", "-")]
    assert internals_of(adapter).SUPPORTED in extra


@ADAPTERS
def test_import_names_a_release_without_a_module(adapter: str, tmp_path: Path) -> None:
    library = adapter.removesuffix("_python")
    # Other modules of the installed release are not found either.
    (tmp_path / library).mkdir()
    (tmp_path / library / "__init__.py").touch()
    done = subprocess.run(
        [sys.executable, "-c", f"import assignors.{adapter}"],
        capture_output=True,
        text=True,
        timeout=TEST_TIMEOUT,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{Path(__file__).parents[2]}"},
    )
    distribution = adapter.replace("_", "-")
    last = done.stderr.splitlines()[-1]
    assert f"UnsupportedClientError: {distribution} {version(distribution)} lacks " in last
    assert f"install '{distribution}>=" in last


def test_a_release_below_the_bound_is_refused(install: Callable[[str], None]) -> None:
    for release in ("1.10", "1.10.0", "2.0rc1"):
        install(release)
        check_internals({}, "library>=1.10,<3")
    install("1.9.12")
    too_old = "library 1.9.12 is older than rackward supports: install 'library>=1.10,<3'"
    with pytest.raises(UnsupportedClientError, match=re.escape(too_old)):
        check_internals({}, "library>=1.10,<3")
