"""Third-party placers for tests, valid and invalid."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from placement_core import ClusterView, PlacementSpec, ReplicaLists


@dataclass
class FixedPlacer:
    """Returns ``result``, or raises it if it is an exception."""

    result: Any = None
    seen: ClusterView | None = None

    def place(
        self,
        spec: PlacementSpec,  # noqa: ARG002
        view: ClusterView,
        broker_ids: Collection[int] | None = None,  # noqa: ARG002
    ) -> ReplicaLists | None:
        self.seen = view
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result  # type: ignore[no-any-return]


class Nested:
    """Contains a placer with ``from_properties``."""

    class Inner(FixedPlacer):
        @classmethod
        def from_properties(cls, properties: dict[str, str]) -> Nested.Inner:
            return cls(result=tuple((int(row),) for row in properties["rows"].split()))


class NoPlacer:
    """Lacks the method ``place``."""


def refuse() -> None:
    raise RuntimeError("out of order")


not_a_class = 7
