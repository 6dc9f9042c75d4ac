"""What it takes to lead 5,000 groups with 100,000 partitions.

    python -m benchmarks.leading [--groups 5000] [--processes 2] [--rest 60]

Starts ``rackward lead`` on simulated brokers (:mod:`benchmarks.coordinator`) whose groups have
three consumers and 20 partitions each, and prints, per process:

- until all groups are led: seconds, CPU seconds, connections at most, requests, rebalances per
  group;
- at rest: CPU per minute, memory, connections, requests per second;
- with several processes, after one was killed and after it was started again: seconds until all
  groups are led, groups that a consumer led meanwhile, and rebalances.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from benchmarks.coordinator import Coordinator, Group
from rackward.kafka.groups import leads_for_rackward
from rackward.lead.take_over import members_ahead

PARTITIONS = 20
WORKER_GROUP = "workers"
TIMEOUT = 600.0


def start(port: int, divide: bool, take_over: str) -> subprocess.Popen[bytes]:
    """Start a process that leads all groups."""
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "rackward.cli.main", "lead", "g*", "--yes"),
            *("--bootstrap-server", f"127.0.0.1:{port}", "--take-over", take_over),
            *(("--worker-group", WORKER_GROUP) if divide else ()),
        ],
        stdout=subprocess.DEVNULL,
        stderr=open(os.environ.get("LEAD_LOG", os.devnull), "ab"),
    )


def cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    """Return the CPU time of a process, in user and system mode."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def megabytes(process: subprocess.Popen[bytes]) -> float:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * 4096 / 1e6


def led(coordinator: Coordinator) -> Counter[str]:
    """Return the number of stable groups by the client id of the process that leads them."""
    return Counter(
        group.members[group.leader].client_id
        for group in coordinator.groups.values()
        if group.state == "Stable" and group.protocol_type == "consumer"
        if leads_for_rackward(group.leader)
    )


async def until(done: Callable[[], bool], what: str) -> float:
    """Wait, and return the seconds. Raises TimeoutError."""
    began = time.monotonic()
    while not done():
        if time.monotonic() - began > TIMEOUT:
            raise TimeoutError(f"not within {TIMEOUT:g} s: {what}")
        await asyncio.sleep(0.1)
    return time.monotonic() - began


async def measure(groups: int, processes: int, rest: float) -> None:
    """Print the figures."""
    coordinator = Coordinator(groups, PARTITIONS)
    serving = asyncio.create_task(coordinator.serve())
    await until(lambda: len(coordinator.ports) == len(coordinator.racks), "the brokers listen")
    running = [start(coordinator.ports[0], processes > 1, "remove") for _ in range(processes)]
    try:
        most = 0

        def all_led() -> bool:
            nonlocal most
            most = max(most, coordinator.connections)
            shares = led(coordinator)
            if any(process.poll() is not None for process in running):
                raise RuntimeError("a process has ended")
            return sum(shares.values()) == groups and len(shares) == processes

        seconds = await until(all_led, "all groups are led")
        print(
            f"start: groups={groups} processes={processes} seconds={seconds:.1f}"
            f" cpu_seconds={_each(running, cpu_seconds)} connections_at_most={most}"
            f" rebalances_per_group={_rebalances(coordinator) / groups:.2f}"
            f" led={sorted(led(coordinator).values())}"
        )
        print(f"  requests: {_counts(coordinator)}")
        await asyncio.sleep(10.0)
        before, cpu = dict(coordinator.requests), [cpu_seconds(each) for each in running]
        own, began = time.process_time(), time.monotonic()
        await asyncio.sleep(rest)
        elapsed = time.monotonic() - began
        used = [
            f"{60 * (cpu_seconds(each) - at) / elapsed:.1f}"
            for each, at in zip(running, cpu, strict=True)
        ]
        sent = {
            name: round((count - before.get(name, 0)) / elapsed, 1)
            for name, count in coordinator.requests.items()
            if count > before.get(name, 0)
        }
        print(
            f"rest: cpu_seconds_per_minute={','.join(used)} megabytes={_each(running, megabytes)}"
            f" connections={coordinator.connections} requests_per_second={sent}"
            f" (brokers: {60 * (time.process_time() - own) / elapsed:.1f} CPU seconds a minute)"
        )
        if processes > 1:
            victim = running.pop()
            victim.send_signal(signal.SIGKILL)
            victim.wait()
            await divide("killed", coordinator, running, groups)
            running.append(start(coordinator.ports[0], True, "remove"))
            await divide("restarted", coordinator, running, groups)
    finally:
        for process in running:
            process.kill()
            process.wait()
        serving.cancel()


def is_going_over(group: Group) -> bool:
    """Return whether another process, which has joined, is about to lead the group."""
    waiting = [m.id for m in group.members.values() if m.session and m.id != group.leader]
    return group.protocol_type == "consumer" and any(
        all(map(leads_for_rackward, members_ahead(each, group.members.keys() - {each})))
        for each in waiting
    )


async def divide(
    what: str, coordinator: Coordinator, running: list[subprocess.Popen[bytes]], groups: int
) -> None:
    """Print what it takes until the running processes lead all groups."""
    cpu = [cpu_seconds(each) for each in running]
    before = _rebalances(coordinator)
    led_by_consumers: set[str] = set()

    def all_led() -> bool:
        led_by_consumers.update(
            group.name
            for group in coordinator.groups.values()
            if group.protocol_type == "consumer" and not leads_for_rackward(group.leader)
        )
        shares = led(coordinator)
        return (
            sum(shares.values()) == groups
            and len(shares) == len(running)
            and not any(map(is_going_over, coordinator.groups.values()))
        )

    seconds = await until(all_led, f"all groups are led: {what}")
    used = [f"{cpu_seconds(each) - at:.1f}" for each, at in zip(running, cpu, strict=True)]
    print(
        f"{what}: seconds={seconds:.1f} cpu_seconds={','.join(used)}"
        f" led_by_consumers_meanwhile={len(led_by_consumers)}"
        f" rebalances={_rebalances(coordinator) - before} led={sorted(led(coordinator).values())}"
    )


def _rebalances(coordinator: Coordinator) -> int:
    return sum(
        group.rebalances
        for group in coordinator.groups.values()
        if group.protocol_type == "consumer"
    )


def _each(
    running: list[subprocess.Popen[bytes]], read: Callable[[subprocess.Popen[bytes]], float]
) -> str:
    return ",".join(f"{read(process):.1f}" for process in running)


def _counts(coordinator: Coordinator) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(coordinator.requests.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=5000)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--rest", type=float, default=60.0, help="seconds")
    arguments = parser.parse_args()
    asyncio.run(measure(arguments.groups, arguments.processes, arguments.rest))


if __name__ == "__main__":
    main()
