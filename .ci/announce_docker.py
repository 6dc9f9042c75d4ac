"""Says, before the tests run, whether those that need Docker will be among them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys


def engine_answers() -> bool:
    """Whether a Docker engine answers within ten seconds."""
    docker = shutil.which("docker")
    if docker is None:
        return False
    try:
        asked = subprocess.run([docker, "info"], capture_output=True, timeout=10, check=False)
    except subprocess.TimeoutExpired:
        return False
    return asked.returncode == 0


def main() -> int:
    """1 where Docker is required (RACKWARD_REQUIRE_DOCKER=1) and absent, otherwise 0."""
    if engine_answers():
        return 0
    if os.environ.get("RACKWARD_REQUIRE_DOCKER") == "1":
        print("RACKWARD_REQUIRE_DOCKER=1, but no Docker engine answers.", file=sys.stderr)
        return 1
    print("No Docker engine answers: the tests that need one are left out (marker: docker).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
