"""The front door: ask a locator, and use its answer only if it can be used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from placement_core.cluster import Broker, ClusterView
from placement_core.errors import RackwardError
from placement_core.locators.errors import LocatorError
from placement_core.locators.metadata import MetadataLocator
from placement_core.locators.protocol import RackLocator
from placement_core.locators.static import StaticLocator
from placement_core.plugins import load_plugin, read_properties, truth
from placement_core.racks import parse_rack

LOCATORS: Mapping[str, type[RackLocator]] = {"metadata": MetadataLocator, "static": StaticLocator}
"""The pure locators, by the names that tools know them under."""

ENTRY_POINTS = "rackward.locators"
"""The entry point group in which packages register locators of their own."""

IGNORE_UNKNOWN = "ignore_unknown"
"""The property that every locator takes: true lets it name brokers that are not live."""


@dataclass(frozen=True, slots=True)
class KnownBrokersOnly:
    """Another locator's answer without the brokers that the cluster does not have (now)."""

    locator: RackLocator

    def racks(self, view: ClusterView) -> Mapping[int, str | None]:
        """See RackLocator."""
        live = {broker.id for broker in view.brokers}
        return {id: rack for id, rack in self.locator.racks(view).items() if id in live}


def load_locator(
    name: str,
    properties: Mapping[str, str] | None = None,
    known: Mapping[str, type[RackLocator]] = LOCATORS,
) -> RackLocator:
    """The locator of that name: one of ``known``, an entry point, or ``module:Class``.

    Raises InvalidOptionError; :func:`placement_core.plugins.load_plugin` says how it is made.
    The property ``ignore_unknown`` makes it a KnownBrokersOnly.
    """
    given = dict(properties or {})
    common = {IGNORE_UNKNOWN: given.pop(IGNORE_UNKNOWN, "false")}
    tolerant = read_properties(f"rack locator {name}", common, **{IGNORE_UNKNOWN: truth})
    found: RackLocator = load_plugin("rack locator", name, given, known, ENTRY_POINTS, "racks")
    return KnownBrokersOnly(found) if tolerant[IGNORE_UNKNOWN] else found


def locate(locator: RackLocator, view: ClusterView) -> ClusterView:
    """``view`` with the racks that the locator says now.

    Raises LocatorError, which names the locator, where it raises, where it answers nothing,
    where it leaves a broker of the view out or says an empty rack, and where it names brokers
    that the view does not have.
    """
    name = locator_name(locator)
    try:
        racks = dict(locator.racks(view))
    except Exception as error:
        # Locators may be anybody's: whatever they raise ends as one line that names them.
        told = (
            str(error) if isinstance(error, RackwardError) else f"{type(error).__name__}: {error}"
        )
        raise LocatorError(name, told) from error
    if problem := _problem(racks, {broker.id for broker in view.brokers}):
        raise LocatorError(name, problem)
    return replace(view, brokers=tuple(Broker(b.id, racks[b.id]) for b in view.brokers))


def locator_name(locator: RackLocator) -> str:
    """What errors call a locator: its name on tools, or ``module:Class``."""
    kind = type(locator.locator if isinstance(locator, KnownBrokersOnly) else locator)
    for name, known in LOCATORS.items():
        if kind is known:
            return name
    return f"{kind.__module__}:{kind.__qualname__}"


def _problem(racks: Mapping[int, str | None], live: set[int]) -> str | None:
    if not racks:
        return f"the answer is empty; it should name the brokers {_ids(live)}"
    if missing := live - racks.keys():
        return f"no rack for {_ids(missing)}: add a rack for each broker of the cluster"
    if strangers := racks.keys() - live:
        return (
            f"it names {_ids(strangers)}, and the cluster has the brokers {_ids(live)}: take "
            f"them out, or set {IGNORE_UNKNOWN}=true if they are down"
        )
    if unreadable := [b for b, rack in racks.items() if rack is not None and not parse_rack(rack)]:
        return f"the rack of {_ids(unreadable)} is empty or not a text: name it, or say None"
    return None


def _ids(brokers: Iterable[object]) -> str:
    return ", ".join(sorted(map(str, brokers), key=lambda text: (len(text), text)))
