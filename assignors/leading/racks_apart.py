"""Racks of members and of brokers that have nothing in common: two vocabularies, likely."""

from __future__ import annotations

import re
from collections.abc import Iterable

from assignors.leading.shown import some
from placement_core import parse_rack

_ZONE_NAME = re.compile(r"[a-z]{2,}(-[a-z]+)+-\d+(-[a-z]+-\d+)?[a-z]")
"""Of AWS: ``us-east-1a``, ``us-gov-west-1b``; of a local zone: ``us-west-2-lax-1a``."""

_ZONE_ID = re.compile(r"[a-z]+\d+(-[a-z]+\d+)?-az\d+")
"""Of AWS: ``use1-az1``; of a local zone: ``usw2-lax1-az1``."""


def racks_apart(members: Iterable[str | None], brokers: Iterable[str | None]) -> str | None:
    """What to say where no member's rack has anything in common with a broker's; else None.

    None too where nobody on one of the sides has a rack. Racks with levels have something in
    common where their widest level is the same.
    """
    here, there = sorted(set(filter(None, members))), sorted(set(filter(None, brokers)))
    tops_here, tops_there = _tops(here), _tops(there)
    if not tops_here or not tops_there or tops_here & tops_there:
        return None
    return (
        f"no member is in a rack of the brokers: members say {some(here)}; brokers {some(there)};"
        f" everything is read across racks{_hint(here, there)}"
    )


def _tops(racks: Iterable[str]) -> set[str]:
    return {path[0] for path in map(parse_rack, racks) if path}


def _hint(here: list[str], there: list[str]) -> str:
    for names, ids, who in ((here, there, "the brokers'"), (there, here, "the members'")):
        if any(map(_ZONE_NAME.fullmatch, names)) and any(map(_ZONE_ID.fullmatch, ids)):
            return (
                f". Some are names of AWS zones, while {who} are ids of zones. A name stands for"
                " another zone in another account, an id does not: use ids on both sides"
                " (broker.rack, and RACKWARD_RACK_FROM=aws-zone-id)"
            )
    return ""
