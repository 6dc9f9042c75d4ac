"""Placers as others might write them, good and bad."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from placement_core import ClusterView, PlacementSpec, ReplicaLists


@dataclass
class Answering:
    """Answers what it is told to, or raises it."""

    answer: Any = None
    seen: ClusterView | None = None

    def place(
        self,
        spec: PlacementSpec,  # noqa: ARG002
        view: ClusterView,
        broker_ids: Collection[int] | None = None,  # noqa: ARG002
    ) -> ReplicaLists | None:
        self.seen = view
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer  # type: ignore[no-any-return]


class Nested:
    """A class within a class, made from its properties by itself."""

    class Inner(Answering):
        @classmethod
        def from_properties(cls, properties: dict[str, str]) -> Nested.Inner:
            return cls(answer=tuple((int(row),) for row in properties["rows"].split()))


class NoPlacer:
    """Has not the method."""


def refuse() -> None:
    raise RuntimeError("out of order")


not_a_class = 7
