"""The bulk of the work: units straight from brokers above the level to brokers below."""

from __future__ import annotations

import numpy as np

from placement_core.exchange.cancel import Exchange
from placement_core.exchange.cycles import FAR
from placement_core.matching import IntArray


def even_out(exchange: Exchange, base: IntArray, areas: IntArray | None = None) -> None:
    """Bring loads near their level by single exchanges, the cheapest first.

    The level is the mean of ``base`` plus loads over the brokers that can exchange units, in
    either direction, through others. ``areas`` (a number per broker) keeps to exchanges within
    an area. What is left uneven, or was not done at least cost, is for
    :func:`~placement_core.exchange.cancel.settle`: nothing here has to be exact.
    """
    while True:
        cost = exchange.costs()
        if areas is not None:
            cost[areas[:, None] != areas[None, :]] = FAR
        part = _parts(cost < FAR)
        total = exchange.loads + base
        mean = np.bincount(part, total) / np.maximum(np.bincount(part), 1)
        above = np.minimum(total - np.ceil(mean[part]).astype(np.int64), exchange.loads)
        below = np.floor(mean[part]).astype(np.int64) - total
        if not _one_pass(exchange, cost, above, below):
            return


def _one_pass(exchange: Exchange, cost: IntArray, above: IntArray, below: IntArray) -> bool:
    """One pass over the pairs of brokers, cheapest first; whether it exchanged anything."""
    any_done = False
    givers, takers = np.flatnonzero(above > 0), np.flatnonzero(below > 0)
    pairs = cost[np.ix_(givers, takers)]
    for price in np.unique(pairs[pairs < FAR]).tolist():
        for giver, row in zip(givers.tolist(), pairs == price, strict=True):
            for taker in takers[row].tolist():
                most = int(min(above[giver], below[taker]))
                if above[giver] <= 0:
                    break
                if most <= 0:
                    continue
                found = exchange.find(giver, taker, price, most)
                exchange.apply(found, giver, taker)
                above[giver] -= len(found)
                below[taker] -= len(found)
                any_done |= len(found) > 0
    return any_done


def _parts(linked: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> IntArray:
    """The connected part of each broker, as a number."""
    part = np.full(len(linked), -1)
    either = linked | linked.T
    for broker in range(len(linked)):
        if part[broker] >= 0:
            continue
        inside = np.zeros(len(linked), bool)
        inside[broker] = True
        while True:
            wider = inside | either[inside].any(axis=0)
            if (wider == inside).all():
                break
            inside = wider
        part[inside] = broker
    return part
