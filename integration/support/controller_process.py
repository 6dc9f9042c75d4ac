"""A controller that sends itself a signal at a step of a pass.

python -m integration.support.controller_process BOOTSTRAP_SERVERS STEP SIGNAL
"""

from __future__ import annotations

import logging
import os
import signal
import sys

from placement_core.locators import MetadataLocator
from placement_core.placers import RackAlternatingPlacer
from rackward.controller.app import Controller, Plugins
from rackward.controller.config import ControllerConfig
from rackward.controller.reconciler import Step

SESSION_TIMEOUT_MS = 6000
"""The minimum that brokers allow."""

THROTTLE = 50_000_000


def main() -> None:
    servers, target, signum = sys.argv[1], Step(sys.argv[2]), signal.Signals[sys.argv[3]]

    def on_step(step: Step) -> None:
        if step is target:
            os.kill(os.getpid(), signum)

    logging.basicConfig(level=logging.INFO)
    config = ControllerConfig({"bootstrap.servers": servers}, throttle=THROTTLE)
    plugins = Plugins(RackAlternatingPlacer, MetadataLocator())
    Controller(
        config, plugins, timeout=20.0, session_timeout_ms=SESSION_TIMEOUT_MS, on_step=on_step
    ).run()


if __name__ == "__main__":
    main()
