"""Where producers are: the racks that brokers do not know, declared or assumed.

Brokers know the rack of no producer. Operators may declare shares per topic; without, producers are
assumed in equal parts in all racks that hold replicas of the cluster's topics in that hour.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from placement_core import InvalidOptionError, parse_rack

ASSUMPTION = "in equal parts in all racks that hold replicas"
"""Where producers of topics without declared shares are."""

ALL_TOPICS = "*"


@dataclass(frozen=True, slots=True)
class Writers:
    """The declared shares of producers: topic (or ALL_TOPICS) to rack to a part of 1."""

    shares: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def description(self) -> str:
        """Return a sentence about where producers are assumed."""
        shares = {
            topic: ", ".join(f"{rack} {part:.4g}" for rack, part in racks.items())
            for topic, racks in self.shares.items()
        }
        others = shares.pop(ALL_TOPICS, ASSUMPTION)
        named = [f"of {topic}: {text}; " for topic, text in shares.items()]
        return f"Producers are assumed {''.join(named)}{'of others: ' if named else ''}{others}"


def parse_writers(texts: Iterable[str], option: str = "--writers") -> Writers:
    """Return the shares in texts such as ``a=60,b=30,c=10`` or ``orders:a=2,b=1``.

    The part before the colon is a topic; ``*`` or none is all others. Shares are in proportion.
    Raise InvalidOptionError, which names ``option``.
    """
    shares: dict[str, dict[str, float]] = {}
    for text in texts:
        head, colon, rest = text.partition(":")
        topic, racks = (head, rest) if colon and "=" not in head else (ALL_TOPICS, text)
        weights: dict[str, float] = {}
        for item in racks.split(","):
            rack, _, number = item.strip().rpartition("=")
            try:
                weight = float(number)
            except ValueError:
                weight = -1.0
            if parse_rack(rack) is None or not 0 <= weight < math.inf:
                raise InvalidOptionError(
                    f"{option} {text!r}: give RACK=SHARE,... or TOPIC:RACK=SHARE,..."
                )
            weights[rack] = weight
        whole = sum(weights.values())
        if not whole:
            raise InvalidOptionError(f"{option} {text!r}: all shares are 0")
        shares[topic] = {rack: weight / whole for rack, weight in weights.items() if weight}
    return Writers(shares)
