"""The cache folder of downloads: its location, its lock, and concurrent downloads."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from hashlib import sha256
from pathlib import Path

import filelock  # noqa: F401 - the processes started here need it
import platformdirs  # noqa: F401
import pytest

from rack_traffic.jars import read_checksums
from rackward.testing import DownloadError, kafka_jars
from rackward.testing.errors import ChecksumError
from rackward.testing.kafka_jars import (
    KAFKA_VERSION,
    VERSION_VARIABLE,
    build_once,
    cache_directory,
    default_version,
    fetch_kafka,
)
from tests.support.waiting import TEST_TIMEOUT

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the folder differs by platform")


@pytest.mark.parametrize(
    ("chosen", "variables", "expected"),
    [
        ("/chosen", {"RACKWARD_CACHE": "/variable"}, "/chosen"),
        ("~/chosen", {}, "/home/u/chosen"),
        (None, {"RACKWARD_CACHE": "/variable", "XDG_CACHE_HOME": "/xdg"}, "/variable"),
        (None, {"RACKWARD_CACHE": "~/variable"}, "/home/u/variable"),
        (None, {"XDG_CACHE_HOME": "/xdg"}, "/xdg/rackward"),
        pytest.param(None, {"XDG_CACHE_HOME": "x/y"}, "/home/u/.cache/rackward", marks=LINUX),
        pytest.param(None, {}, "/home/u/.cache/rackward", marks=LINUX),
    ],
)
def test_location_of_the_cache(
    monkeypatch: pytest.MonkeyPatch, chosen: str | None, variables: dict[str, str], expected: str
) -> None:
    for name in ("RACKWARD_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/u", **variables}.items():
        monkeypatch.setenv(name, value)
    assert cache_directory(chosen) == Path(expected)


def test_a_failed_build_leaves_nothing_and_is_repeated(tmp_path: Path) -> None:
    target = tmp_path / "target"

    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        build_once(target, fail)
    assert [path.name for path in tmp_path.iterdir()] == ["target.lock"]
    build_once(target, lambda folder: (folder / "whole").touch())
    assert [path.name for path in target.iterdir()] == ["whole"]
    build_once(target, fail)  # The folder exists, so nothing is built.


DOWNLOAD = textwrap.dedent("""
    import sys, time
    from pathlib import Path
    from rackward.testing import kafka_jars

    def download(name, folder, choose, pinned):
        with (Path(sys.argv[1]) / "downloads").open("a") as file:
            file.write("one\\n")
        while not (Path(sys.argv[1]) / "others wait").exists():
            time.sleep(0.05)
        folder.mkdir()
        (folder / "kafka.jar").touch()

    kafka_jars._download = download
    print("ready", flush=True)
    sys.stdin.readline()
    show = lambda line: print(line, flush=True)
    kafka = kafka_jars.fetch_kafka("4.4.0", Path(sys.argv[1]), show)
    print([jar.name for jar in kafka.jars], kafka.log_config.exists(), flush=True)
""")


def test_processes_that_download_at_the_same_time_download_once(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", DOWNLOAD, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    outputs = []
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        firsts = [process.stdout.readline().rstrip() for process in processes if process.stdout]
        (tmp_path / "others wait").touch()
        outputs = [
            process.communicate(timeout=TEST_TIMEOUT)[0].splitlines() for process in processes
        ]
        (tmp_path / "others wait").unlink()
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert (tmp_path / "downloads").read_text() == "one\n"
    assert [lines[-1] for lines in outputs] == ["['kafka.jar'] True"] * 3
    waiting = f"waiting for another process that holds {tmp_path}/kafka-4.4.0-1.lock"
    assert sorted(firsts) == [
        "downloading Kafka 4.4.0 (45 MB, once)",
        waiting,
        waiting,
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "downloads",
        "kafka-4.4.0-1",
        "kafka-4.4.0-1.lock",
    ]


BUILD_FOREVER = textwrap.dedent("""
    import sys, time
    from pathlib import Path
    from rackward.testing.kafka_jars import build_once

    def build(folder):
        (folder / "half").touch()
        print("building", flush=True)
        time.sleep(600)

    build_once(Path(sys.argv[1]), build)
""")


def test_a_killed_build_blocks_no_other_and_is_removed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    with subprocess.Popen(
        [sys.executable, "-c", BUILD_FOREVER, str(target)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "building\n"
        process.kill()
    assert (tmp_path / "target.partial" / "half").exists()
    messages: list[str] = []
    build_once(target, lambda folder: (folder / "whole").touch(), messages.append)
    assert messages == []
    assert [path.name for path in target.iterdir()] == ["whole"]
    assert not (tmp_path / "target.partial").exists()


def test_a_failed_download_is_retried_once_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = []

    def copy_jars(_folder: Path, _choose: object) -> None:
        attempts.append(1)
        raise OSError("connection refused")

    monkeypatch.setattr(kafka_jars, "_copy_jars", copy_jars)
    with pytest.raises(
        DownloadError, match=r"Kafka 9\.9\.9 \(connection refused\): .*can be reached"
    ):
        fetch_kafka("9.9.9", tmp_path)
    assert len(attempts) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["kafka-9.9.9-1.lock"]


A = "org/example/a/1/a-1.jar"
AGENT = "org/jolokia/jolokia-agent-jvm/2.2.9/jolokia-agent-jvm-2.2.9-javaagent.jar"


@pytest.mark.parametrize(
    ("pinned", "problem"),
    [
        ({A: "right", AGENT: "agent"}, None),
        ({A: "wrong", AGENT: "agent"}, "the SHA-256 of a-1.jar is "),
        ({A: "right"}, "jolokia-agent-jvm-2.2.9-javaagent.jar is not among the expected jars"),
    ],
)
def test_jars_that_are_not_as_pinned_are_not_used(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pinned: dict[str, str],
    problem: str | None,
) -> None:
    table = tmp_path / "jars.sha256"
    lines = [f"{sha256(text.encode()).hexdigest()}  {name}\n" for name, text in pinned.items()]
    table.write_text("".join(lines))
    downloads = []

    def copy_jars(folder: Path, _choose: object) -> None:
        downloads.append(folder)
        (folder / "a-1.jar").write_text("right")
        (folder / AGENT.rpartition("/")[2]).write_text("agent")

    monkeypatch.setattr(kafka_jars, "_copy_jars", copy_jars)
    monkeypatch.setattr(kafka_jars, "_JARS", table)
    if problem is None:
        kafka = fetch_kafka(KAFKA_VERSION, tmp_path)
        assert [jar.name for jar in kafka.jars] == ["a-1.jar"]
        assert kafka.agent.read_text() == "agent"
    else:
        with pytest.raises(ChecksumError, match=f"is not used: {problem}"):
            fetch_kafka(KAFKA_VERSION, tmp_path)
        assert not list(tmp_path.glob("kafka-*[0-9]"))
        assert len(downloads) == 1, "another attempt would give the same"


def test_other_versions_are_said_to_be_unpinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_jars, "_copy_jars", lambda folder, _: folder.exists())
    shown: list[str] = []
    fetch_kafka("3.9.1", tmp_path, shown.append)
    assert shown == ["downloading Kafka 3.9.1 (45 MB, once; the checksums of its jars are unknown)"]


def test_the_jars_of_the_default_version_are_pinned() -> None:
    pinned = read_checksums(kafka_jars._JARS)
    coordinates = {kafka_jars._coordinate(path) for path in pinned}
    assert f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}" in coordinates
    assert kafka_jars._JOLOKIA in coordinates
    assert any(each.startswith("org.apache.logging.log4j:log4j-slf4j") for each in coordinates)
    assert all(len(bytes.fromhex(checksum)) == 32 for checksum in pinned.values())


def test_the_environment_chooses_the_default_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VERSION_VARIABLE, raising=False)
    assert default_version() == KAFKA_VERSION
    monkeypatch.setenv(VERSION_VARIABLE, "3.9.1")
    assert default_version() == "3.9.1"
