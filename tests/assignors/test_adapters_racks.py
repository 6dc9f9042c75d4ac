"""Where the assignors of each client that takes them have their rack from."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

import assignors.aiokafka
import assignors.kafka_python
from assignors.rack_discovery import discover

ADAPTERS = pytest.mark.parametrize("adapter", [assignors.kafka_python, assignors.aiokafka])


@ADAPTERS
def test_the_rack_comes_from_the_environment(
    adapter: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    sticky = adapter.LeaderRackAwareCooperativeStickyAssignor
    monkeypatch.setenv("RACKWARD_RACK", " az2 ")
    assert (sticky().rack, sticky(rack="az1").rack) == ("az2", "az1")
    monkeypatch.setenv("RACKWARD_RACK", "")
    assert sticky().rack is None
    assert adapter.LeaderRackAwareRangeAssignor().rack is None


@ADAPTERS
def test_the_rack_comes_from_a_file_or_from_a_source_that_is_named(
    adapter: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sticky = adapter.LeaderRackAwareCooperativeStickyAssignor
    monkeypatch.delenv("RACKWARD_RACK", raising=False)
    file = tmp_path / "zone"
    file.write_text("az3\n")
    monkeypatch.setenv("RACKWARD_RACK_FILE", str(file))
    assert (adapter.LeaderRackAwareRangeAssignor().rack, sticky().rack) == ("az3", "az3")
    assert sticky(rack=discover("command:echo az4")).rack == "az4"
    assert sticky(rack=discover("command:no-such-program")).rack is None
