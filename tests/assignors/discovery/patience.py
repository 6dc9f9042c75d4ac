"""Sources with more time than they have by default: machines that run tests are busy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from assignors.discovery import RackSource
from assignors.discovery.searching import Search, search
from integration.waiting import PATIENCE


def search_patiently(sources: Iterable[RackSource]) -> Search:
    """As :func:`search`, with so many seconds for each source."""

    def patient(source: Any) -> RackSource:
        longer: RackSource = replace(source, timeout=PATIENCE)
        return longer

    return search(map(patient, sources), budget=10 * PATIENCE)
