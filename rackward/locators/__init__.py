"""The rack locators that read files and run commands, beside the pure ones."""

from __future__ import annotations

from collections.abc import Mapping

from placement_core.locators import LOCATORS as PURE
from placement_core.locators import RackLocator
from placement_core.locators import load_locator as load_known
from rackward.locators.command import CommandLocator
from rackward.locators.file import FileLocator

LOCATORS: Mapping[str, type[RackLocator]] = {
    **PURE,
    "file": FileLocator,
    "command": CommandLocator,
}
"""Every locator that comes with rackward, by the names that tools know them under."""


def load_locator(name: str, properties: Mapping[str, str] | None = None) -> RackLocator:
    """The locator of that name: one of LOCATORS, an entry point, or ``module:Class``.

    As :func:`placement_core.locators.load_locator`, with the file and the command locator.
    """
    return load_known(name, properties, LOCATORS)


__all__ = ["LOCATORS", "CommandLocator", "FileLocator", "load_locator"]
