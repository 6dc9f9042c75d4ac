"""What is asked for a rack that nobody gave, and in which order.

1. ``RACKWARD_RACK``: the rack itself.
2. ``RACKWARD_RACK_FILE``: a file that holds it (see :mod:`assignors.discovery.file`).
3. ``RACKWARD_RACK_FROM``: the name of a source, as :func:`assignors.discovery.discover` takes it.
4. Plug-ins, by name (see :mod:`assignors.discovery.plugins`).

What was said for this process comes before what happens to be installed in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from assignors.discovery.file import FileSource
from assignors.discovery.metadata_service import ENDPOINT_VARIABLE
from assignors.discovery.naming import discover
from assignors.discovery.plugins import installed_plugins
from assignors.discovery.source import RackSource, UnusableSource
from assignors.discovery.variable import Variable
from placement_core import InvalidOptionError

RACK_VARIABLE = "RACKWARD_RACK"
FILE_VARIABLE = "RACKWARD_RACK_FILE"
FROM_VARIABLE = "RACKWARD_RACK_FROM"

VARIABLES = (RACK_VARIABLE, FILE_VARIABLE, FROM_VARIABLE, ENDPOINT_VARIABLE)
"""All that :func:`sources` reads of the environment."""


def sources(environ: Mapping[str, str]) -> Iterator[RackSource]:
    """Every source that may be asked unless an earlier one has the rack."""
    if rack := environ.get(RACK_VARIABLE, "").strip():
        yield Variable(RACK_VARIABLE, rack)
    if path := environ.get(FILE_VARIABLE, "").strip():
        yield FileSource.named(path)
    if name := environ.get(FROM_VARIABLE, "").strip():
        try:
            yield discover(name, environ=environ)
        except InvalidOptionError as error:
            yield UnusableSource(FROM_VARIABLE, f"cannot be used: {error}")
    yield from installed_plugins()
