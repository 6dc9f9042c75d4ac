"""How long the leader of a group waits for others."""

from __future__ import annotations

METADATA_PATIENCE = 3.0
"""Seconds for which a leader waits for the metadata of topics that it has not seen."""

HAND_OVER_PATIENCE = 30.0
"""Seconds after which a leader asks for the second round of a rebalance itself."""
