"""A controller that a signal hits at a step: ``python -m
integration.support.controller_process``."""

from __future__ import annotations

import logging
import os
import signal
import sys

from placement_core.locators import MetadataLocator
from placement_core.placers import RackAlternatingPlacer
from rackward.controller.app import Controller, Plugins
from rackward.controller.config import Settings
from rackward.controller.reconciler import Step

SESSION_MS = 6000
"""The least that brokers allow: the next controller waits for so long."""

THROTTLE = 50_000_000


def main() -> None:
    servers, fatal, signum = sys.argv[1], Step(sys.argv[2]), signal.Signals[sys.argv[3]]

    def step(now: Step) -> None:
        if now is fatal:
            os.kill(os.getpid(), signum)

    logging.basicConfig(level=logging.INFO)
    settings = Settings({"bootstrap.servers": servers}, throttle=THROTTLE)
    plugins = Plugins(RackAlternatingPlacer, MetadataLocator())
    Controller(settings, plugins, timeout=20.0, session_ms=SESSION_MS, step=step).run()


if __name__ == "__main__":
    main()
