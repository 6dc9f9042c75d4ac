"""The plug-ins in examples/, installed as packages and used by name."""

from __future__ import annotations

import importlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from assignors.rack_discovery import discover
from assignors.rack_discovery.resolve import sources
from placement_core import Broker, ClusterView, InvalidOptionError, PlacementSpec
from placement_core.locators import apply_locator
from placement_core.placers import PlacerError, load_placer, place
from rack_traffic.errors import PriceTableError
from rack_traffic.prices import load_prices
from rackward.cli.options import LocatorOptions, PlacingOptions, price_table
from rackward.rack_locators import load_locator
from tests.support.rack_sources import search_with_long_timeouts

ROOT = Path(__file__).parents[1]
EXAMPLES = ("broker_id_locator", "leader_rack_placer", "host_name_rack", "contract_prices")


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that the examples are installed into; nothing is downloaded."""
    import hatchling.build  # noqa: F401 - skips the tests where it is not installed

    folder = tmp_path_factory.mktemp("packages")
    options = ("--no-deps", "--no-index", "--no-build-isolation", "--quiet", "--target", folder)
    sources = [ROOT / "examples" / name for name in EXAMPLES]
    # The build uses what is installed; constraints for packages to build with are refused then.
    environment = {k: v for k, v in os.environ.items() if k != "PIP_BUILD_CONSTRAINT"}
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, *sources], check=True, env=environment
    )
    return folder


@pytest.fixture(autouse=True)
def _installed(packages: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(packages)
    yield
    for name in EXAMPLES:
        sys.modules.pop(name, None)


def view(**racks: str | None) -> ClusterView:
    brokers = tuple(Broker(int(name[1:]), rack) for name, rack in racks.items())
    return ClusterView(brokers=brokers, replicas={})


def test_every_folder_of_examples_is_tested() -> None:
    folders = {path.parent.name for path in (ROOT / "examples").glob("*/pyproject.toml")}
    assert folders == set(EXAMPLES)
    table = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in table for name in EXAMPLES)


def test_the_locator_reads_racks_from_broker_ids() -> None:
    locator = LocatorOptions("broker-id", "divisor=100,prefix=r").locator()
    found = apply_locator(locator, view(b101=None, b102=None, b201=None))
    assert found.racks() == {101: "r1", 102: "r1", 201: "r2"}
    default = load_locator("broker-id")
    assert apply_locator(default, view(b301=None)).racks() == {301: "rack-3"}


def test_the_locator_explains_invalid_properties() -> None:
    with pytest.raises(InvalidOptionError, match="divisor is 0: give a number of at least 1"):
        load_locator("broker-id", {"divisor": "0"})
    with pytest.raises(InvalidOptionError, match="broker-id has no property size"):
        load_locator("broker-id", {"size": "1"})


def test_the_placer_puts_leaders_into_the_racks_that_are_named() -> None:
    cluster = view(b0="a", b1="a", b2="b", b3="b", b4="c", b5="c")
    placement = PlacingOptions(
        placement="leaders-in", placement_properties="racks=a+b", seed=1
    ).parse()
    rows = place(PlacementSpec(12, 3), cluster, placement.placer)
    assert {cluster.racks()[row[0]] for row in rows} == {"a", "b"}
    assert all({cluster.racks()[broker] for broker in row} == {"a", "b", "c"} for row in rows)
    same = PlacingOptions(placement="leaders-in", placement_properties="racks=a+b", seed=1).parse()
    assert place(PlacementSpec(12, 3), cluster, same.placer) == rows


def test_the_placer_keeps_present_replicas_in_their_order() -> None:
    cluster = view(b0="a", b1="b", b2="c")
    placer = load_placer("leaders-in", {"racks": "a", "seed": "1"})
    (row,) = place(PlacementSpec(1, 3, present=((2,),)), cluster, placer)
    assert row[0] == 2
    assert set(row) == {0, 1, 2}


def test_placer_defers_without_racks_and_explains_refusals() -> None:
    placer = load_placer("leaders-in", {"racks": "z", "seed": "1"})
    assert len(place(PlacementSpec(4, 2), view(b0=None, b1=None), placer)) == 4
    with pytest.raises(PlacerError, match="partition 0 has no replica in the racks z"):
        place(PlacementSpec(4, 2), view(b0="a", b1="b"), placer)
    with pytest.raises(InvalidOptionError, match="needs the property racks"):
        load_placer("leaders-in")


@pytest.mark.parametrize("name", [None, "host-name", "host_name_rack:own_rack"])
def test_the_rack_source_serves_consumers_without_a_rack(
    monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "app.h.example")
    monkeypatch.setenv("HOST_NAME_RACK_PATTERN", r"\.(h)\.")
    searched = sources({}) if name is None else [discover(name)]
    result = search_with_long_timeouts(searched)
    assert result.rack == "h"
    assert result.source == f"plug-in {name or 'host-name'} (host_name_rack:own_rack)"


def test_the_rack_source_without_a_match_has_no_rack() -> None:
    module = importlib.import_module("host_name_rack")
    assert module.rack_in("app-7.rack-b.example", module.DEFAULT_PATTERN) == "rack-b"
    assert module.rack_in("localhost", module.DEFAULT_PATTERN) is None


def test_the_price_table_has_a_price_per_level() -> None:
    prices = price_table("contract", "data_centres=0.08,rooms=0.01,discount=0.25")
    assert prices.price("c", "/dc1/r1", "/dc2/r1") == pytest.approx(0.06)
    assert prices.price("c", "/dc1/r1", "/dc1/r2") == pytest.approx(0.0075)
    assert prices.price("c", "/dc1/r1", "/dc1/r1") == 0


def test_the_price_table_explains_invalid_properties() -> None:
    with pytest.raises(InvalidOptionError, match="--prices: contract needs the properties rooms"):
        price_table("contract", "data_centres=1")
    with pytest.raises(PriceTableError, match=r"price table 'contract': per_gb is -1\.0"):
        load_prices("contract", {"data_centres": "-1", "rooms": "1"})
