from __future__ import annotations

import pytest

from assignors.confluent.offsets import OffsetBook, Position

A, B = ("t", 0), ("t", 1)


@pytest.mark.parametrize(
    ("position", "other", "is_beyond"),
    [
        (Position(0), None, True),
        (Position(5), Position(4), True),
        (Position(5), Position(5), False),
        (Position(4), Position(5), False),
        (Position(4, 2), Position(5, 1), True),
        (Position(6, 1), Position(5, 2), False),
    ],
)
def test_which_position_is_further_on(
    position: Position, other: Position | None, is_beyond: bool
) -> None:
    assert position.is_beyond(other) is is_beyond


def test_what_is_stored_is_the_position() -> None:
    book = OffsetBook(auto_store=True)
    assert book.stored({A: Position(3), B: None}) == {A: Position(3)}


def test_a_seek_resets_the_position_and_not_what_is_stored() -> None:
    book = OffsetBook(auto_store=True)
    book.store(A, Position(9))
    assert book.stored({A: None}) == {A: Position(9)}
    assert book.stored({A: Position(2)}) == {A: Position(2)}


def test_what_the_application_stores_is_stored_whatever_it_read() -> None:
    book = OffsetBook(auto_store=False)
    book.store(A, Position(3, 1, "half"))
    assert book.stored({A: Position(9), B: Position(9)}) == {A: Position(3, 1, "half")}


def test_another_assignment_begins_with_nothing_stored() -> None:
    book = OffsetBook(auto_store=False)
    book.store(A, Position(3))
    book.store(B, Position(4))
    book.forget([A])
    assert book.stored({A: None, B: None}) == {B: Position(4)}


def test_only_what_is_beyond_the_last_commit_is_due() -> None:
    book = OffsetBook(auto_store=True)
    positions: dict[tuple[str, int], Position | None] = {A: Position(5), B: Position(7)}
    assert book.due(positions) == positions
    book.committed({A: Position(5)})
    assert book.due(positions) == {B: Position(7)}
    # Read again after a seek: what is committed stays ahead.
    assert book.due({A: Position(1)}) == {}


def test_what_others_may_have_committed_is_not_known() -> None:
    book = OffsetBook(auto_store=True)
    book.committed({A: Position(5)})
    book.lost_sight([A])
    assert book.due({A: Position(1)}) == {A: Position(1)}
