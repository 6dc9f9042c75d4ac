"""The demo's result as JSON, for scripts. `SCHEMA` documents it in the command's help."""

from __future__ import annotations

import json
from typing import Any

from rackward.demo.measures import DemoResult, Matrix, StepMeasure, StrategyResult, crossing

SCHEMA = """\
{"format": 1, "cluster": str, "brokers": int, "racks": [str], "partitions": int,
 "seed": int, "seconds": float, "produced_bytes": int, "produced_records": int,
 "bytes_counted_by": "brokers" or "estimate", "price_per_gb": float,
 "at_optimum": bool, "left_out": [step key],
 "strategies": [{"key": str, "title": str, "ours": bool,
   "local_share": float or null, "total_bytes": int, "crossing_bytes": int,
   "price_per_month": float, "moved": int, "interrupted": int, "records_read": int,
   "fewest_partitions": int, "most_partitions": int,
   "bytes": {reader's rack: {broker's rack: int}},
   "steps": [{"key": str, "title": str, "rebalances": bool, "seconds": float,
     "off_rack": int, "optimum": int, "at_optimum": bool, "moved": int,
     "interrupted": int, "fewest_partitions": int, "most_partitions": int,
     "members": {member: rack}, "total_bytes": int, "crossing_bytes": int,
     "bytes": {reader's rack: {broker's rack: int}}}]}]}"""


def to_json(result: DemoResult) -> str:
    """``result`` as one JSON document, ending in a newline."""
    document = {
        "format": 1,
        "cluster": result.cluster,
        "brokers": result.brokers,
        "racks": list(result.racks),
        "partitions": result.partitions,
        "seed": result.seed,
        "seconds": round(result.seconds, 3),
        "produced_bytes": result.produced_bytes,
        "produced_records": result.produced_records,
        "bytes_counted_by": "brokers" if result.counted else "estimate",
        "price_per_gb": result.price_per_gb,
        "at_optimum": result.at_optimum,
        "left_out": [step.event.value for step in result.left_out],
        "strategies": [_strategy(found, result) for found in result.strategies],
    }
    return json.dumps(document, indent=2) + "\n"


def _strategy(found: StrategyResult, result: DemoResult) -> dict[str, Any]:
    fewest, most = found.loads
    return {
        "key": found.strategy.key,
        "title": found.strategy.title,
        "ours": found.strategy.ours,
        "local_share": found.local_share,
        "total_bytes": found.total_bytes,
        "crossing_bytes": found.crossing_bytes,
        "price_per_month": round(found.monthly_price(result.seconds, result.price_per_gb), 2),
        "moved": found.moved,
        "interrupted": found.interrupted,
        "records_read": found.records,
        "fewest_partitions": fewest,
        "most_partitions": most,
        "bytes": _nested(found.matrix),
        "steps": [_step(measure) for measure in found.steps],
    }


def _step(measure: StepMeasure) -> dict[str, Any]:
    fewest, most = measure.standing.loads
    return {
        "key": measure.step.event.value,
        "title": measure.step.title,
        "rebalances": measure.step.rebalances,
        "seconds": round(measure.seconds, 3),
        "off_rack": measure.standing.off_rack,
        "optimum": measure.standing.optimum,
        "at_optimum": measure.standing.at_optimum,
        "moved": measure.moved,
        "interrupted": measure.interrupted,
        "fewest_partitions": fewest,
        "most_partitions": most,
        "members": dict(sorted(measure.standing.member_racks.items())),
        "total_bytes": sum(measure.bytes.values()),
        "crossing_bytes": crossing(measure.bytes),
        "bytes": _nested(measure.bytes),
    }


def _nested(matrix: Matrix) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for (reader, broker), size in sorted(matrix.items()):
        nested.setdefault(reader, {})[broker] = size
    return nested
