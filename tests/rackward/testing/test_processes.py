"""Processes end when their owner exits or is killed. These tests need no Kafka."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rackward.testing.errors import ClusterClosedError, ClusterError, ClusterTimeoutError
from rackward.testing.processes import Processes
from tests.support.waiting import TEST_TIMEOUT, wait_until

SLEEP = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]

OWNER = textwrap.dedent("""
    import sys, time
    from pathlib import Path
    from rackward.testing.processes import Processes

    on_exit = [sys.executable, "-c", f"open({sys.argv[1] + '/on-exit'!r}, 'w')"]
    processes = Processes(sys.argv[1], on_exit)
    sleep = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]
    pid = processes.start("one", sleep, processes.folder / "out")
    print(pid, processes.folder, flush=True)
    time.sleep(600)
""")


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with closing(Processes(tmp_path)) as processes:
        yield processes


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_close_ends_all_processes_and_may_be_repeated(processes: Processes, tmp_path: Path) -> None:
    pids = [processes.start(name, SLEEP, processes.folder / name) for name in ("one", "two")]
    # A stopped process must end as well.
    processes.signal("two", signal.SIGSTOP)
    assert all(map(is_alive, pids))
    processes.close()
    assert not any(map(is_alive, pids))
    assert list(tmp_path.iterdir()) == []
    processes.close()
    with pytest.raises(ClusterClosedError):
        processes.exit_code("one")


def test_exit_codes_and_output(processes: Processes) -> None:
    out = processes.folder / "out"
    for word in ("first", "second"):
        processes.start("echo", [sys.executable, "-c", f"print({word!r}); exit(3)"], out)
        assert processes.wait("echo", TEST_TIMEOUT) == 3
    assert out.read_text().split() == ["first", "second"]
    processes.start("sleep", SLEEP, out)
    assert processes.exit_code("sleep") is None
    with pytest.raises(ClusterTimeoutError, match=r"sleep did not exit within 0\.05 s"):
        processes.wait("sleep", 0.05)
    processes.signal("sleep", signal.SIGKILL)
    assert processes.wait("sleep", TEST_TIMEOUT) == -signal.SIGKILL
    processes.signal("sleep", signal.SIGKILL)
    with pytest.raises(ClusterError, match="could not start nothing"):
        processes.start("nothing", ["/no/such/program"], out)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_outlives_a_killed_owner(tmp_path: Path, number: signal.Signals) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert owner.stdout is not None
    with owner.stdout:
        pid, folder = owner.stdout.readline().split()
    assert is_alive(int(pid))
    owner.send_signal(number)
    owner.wait()
    wait_until(
        lambda: not is_alive(int(pid)) and not Path(folder).exists(),
        TEST_TIMEOUT,
        "process and folder no longer exist",
    )
    wait_until((tmp_path / "on-exit").exists, TEST_TIMEOUT, "the command for the exit has run")


def test_processes_end_although_a_fork_of_the_owner_runs(tmp_path: Path) -> None:
    # The fork inherits the owner's end of the pipe, which therefore stays open.
    fork = "import os\nif os.fork(): os._exit(0)\nprint(os.getpid(), flush=True)\n"
    script = OWNER.replace("time.sleep(600)\n", f"{fork}time.sleep(600)\n")
    assert script != OWNER
    out = tmp_path / "out"
    with out.open("w") as file:
        command = [sys.executable, "-c", script, str(tmp_path)]
        subprocess.run(command, stdout=file, check=True, timeout=TEST_TIMEOUT)
    wait_until(lambda: out.read_text().count("\n") == 2, TEST_TIMEOUT, "the fork prints its pid")
    pid, folder, forked = out.read_text().split()
    try:
        wait_until(
            lambda: not is_alive(int(pid)) and not Path(folder).exists(),
            TEST_TIMEOUT,
            "process and folder no longer exist",
        )
        assert is_alive(int(forked))
    finally:
        os.kill(int(forked), signal.SIGKILL)


def test_close_ends_processes_whose_reaper_was_killed(processes: Processes, tmp_path: Path) -> None:
    pid = processes.start("one", SLEEP, processes.folder / "out")
    os.kill(processes._reaper.pid, signal.SIGKILL)
    processes.close()
    assert not is_alive(pid)
    assert list(tmp_path.iterdir()) == []


def test_java_variables_of_the_user_are_not_inherited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xmx1m")
    with closing(Processes(tmp_path)) as processes:
        command = [sys.executable, "-c", "import os; print('JAVA_TOOL_OPTIONS' in os.environ)"]
        processes.start("one", command, processes.folder / "out")
        processes.wait("one", TEST_TIMEOUT)
        assert (processes.folder / "out").read_text().strip() == "False"
