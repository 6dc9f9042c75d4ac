"""PlacementSpec: validation and conversion of values."""

from __future__ import annotations

from typing import Any

import pytest

from placement_core import InvalidOptionError, PlacementSpec


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"partitions": 0}, "partitions is 0: give a whole number, 1 or more"),
        ({"partitions": 1.5}, "partitions is 1.5"),
        ({"partitions": True}, "partitions is True"),
        ({"replication_factor": 0}, "replication_factor is 0"),
        ({"first_partition": -1}, "first_partition is -1: give a whole number, 0 or more"),
        ({"present": ((1,), (2,), (3,))}, "present has 3 replica lists for 2 partitions"),
        ({"present": ((1, 1),)}, "partition 0 name a broker twice"),
        (
            {"present": ((), (1, 2, 3)), "first_partition": 5},
            "partition 6 has 3 replicas .* more than the replication factor 2",
        ),
    ],
)
def test_invalid_values_are_rejected(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        PlacementSpec(**{"partitions": 2, "replication_factor": 2, **values})


def test_present_lists_are_converted_to_tuples() -> None:
    spec = PlacementSpec(3, 2, present=[[1, 2], []])  # type: ignore[arg-type]
    assert spec.present == ((1, 2), ())
    assert [spec.present_replicas(index) for index in range(3)] == [(1, 2), (), ()]
    assert hash(spec)
