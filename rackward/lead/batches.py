"""One request for what several groups need at about the same time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from kafka.future import Future

MAX_NAMES = 500
"""Names in a batch, after which it is sent at once: responses are decoded on the event loop."""

Result = TypeVar("Result")


@dataclass(slots=True)
class _Batch:
    names: set[str] = field(default_factory=set)
    result: Any = field(default_factory=Future)


class Batches(Generic[Result]):
    """Collects names for ``seconds``, calls ``send`` with a broker and all of them, and returns its
    result, or raises its error, to all that gave names.

    Used on the event loop; ``call_later`` and ``start`` are its functions.
    """

    def __init__(
        self,
        send: Callable[[int | None, Sequence[str]], Awaitable[Result]],
        seconds: float,
        call_later: Callable[[float, Callable[[], None]], object],
        start: Callable[[Callable[[], Awaitable[None]]], object],
    ) -> None:
        self._send = send
        self._seconds = seconds
        self._call_later = call_later
        self._start = start
        self._open: dict[int | None, _Batch] = {}

    async def request(self, node: int | None, names: Iterable[str]) -> Result:
        """Return the result of the batch of a broker (None: any) to which ``names`` are added."""
        batch = self._open.get(node)
        if batch is None:
            batch = opened = self._open[node] = _Batch()
            self._call_later(self._seconds, lambda: self._close(node, opened))
        batch.names.update(names)
        if len(batch.names) >= MAX_NAMES:
            self._close(node, batch)
        result: Result = await batch.result
        return result

    def _close(self, node: int | None, batch: _Batch) -> None:
        """Send the batch, unless that is done."""
        if self._open.get(node) is batch:
            del self._open[node]
            self._start(lambda: self._complete(node, batch))

    async def _complete(self, node: int | None, batch: _Batch) -> None:
        try:
            batch.result.success(await self._send(node, sorted(batch.names)))
        except Exception as error:  # noqa: BLE001 - raised where it is awaited
            batch.result.failure(error)
