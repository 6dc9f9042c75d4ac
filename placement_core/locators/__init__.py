"""Rack locators: where brokers stand, from wherever that is written down."""

from placement_core.locators.errors import LocatorError, RackTextError
from placement_core.locators.locating import (
    ENTRY_POINTS,
    LOCATORS,
    KnownBrokersOnly,
    load_locator,
    locate,
    locator_name,
)
from placement_core.locators.metadata import MetadataLocator
from placement_core.locators.protocol import RackLocator
from placement_core.locators.static import StaticLocator
from placement_core.locators.text import FORMATS, TextFormat, TextLocator, parse_racks

__all__ = [
    "ENTRY_POINTS",
    "FORMATS",
    "LOCATORS",
    "KnownBrokersOnly",
    "LocatorError",
    "MetadataLocator",
    "RackLocator",
    "RackTextError",
    "StaticLocator",
    "TextFormat",
    "TextLocator",
    "load_locator",
    "locate",
    "locator_name",
    "parse_racks",
]
