"""Kafka's jars: fetched once through Maven coordinates, without Maven or Java, then kept.

jgo's lower layer resolves and downloads in Python alone; its upper one would fetch a JDK
to classify the jars, so it is left out. Kafka is resolved by itself: resolved together
with the log binding, the binding's dependency management would swap Kafka's own client
for an older one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rackward.clusters.cache import Progress, locked
from rackward.clusters.errors import DownloadError, MissingExtraError

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
