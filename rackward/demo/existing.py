"""A stage on somebody else's cluster: what it must have, and what the demo refuses."""

from __future__ import annotations

from rackward.admin import connect, read_state
from rackward.demo.groups import DemoError
from rackward.demo.stage import Stage

MOST_RACKS = 6
"""Two members per rack and strategy: beyond this it is no longer a demo."""


def existing_stage(bootstrap_servers: str) -> Stage:
    """The stage on a cluster that is there already.

    Raises DemoError where the brokers' racks leave nothing to compare.
    """
    with connect({}, bootstrap_servers) as admin:
        view = read_state(admin, [], ongoing=False).view
    racks = {broker.id: broker.rack for broker in view.brokers if broker.rack is not None}
    names = sorted(set(racks.values()))
    if len(names) < 2:
        said = f"only {names[0]!r}" if names else "none"
        raise DemoError(
            f"the brokers at {bootstrap_servers} must stand in two racks at least, and say "
            f"{said}: set broker.rack in their configuration"
        )
    if len(names) > MOST_RACKS:
        raise DemoError(
            f"the brokers at {bootstrap_servers} stand in {len(names)} racks; the demo runs two "
            f"members per rack and strategy, and does so for at most {MOST_RACKS} racks"
        )
    if any(name.startswith("/") for name in names):
        raise DemoError(
            f"the brokers at {bootstrap_servers} say racks with levels ({names[0]}): the demo "
            "counts racks as near or far, and would misjudge the levels between"
        )
    return Stage(f"cluster at {bootstrap_servers}", bootstrap_servers, racks)
