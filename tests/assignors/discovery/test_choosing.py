"""What a consumer gets, and what the log says of it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from assignors.discovery import discover
from assignors.discovery.choosing import Choice
from assignors.discovery.memory import KEPT_SECONDS, Memory
from assignors.leading import Remarks
from integration.waiting import PATIENCE
from placement_core import InvalidOptionError
from tests.assignors.discovery.metadata_server import MetadataServer
from tests.assignors.discovery.patience import search_patiently


@dataclass
class Counted:
    """A source that counts how often it is asked; neither frozen nor hashable."""

    answer: object
    asked: list[float] = field(default_factory=list, compare=False)
    name: str = "counted"
    timeout: float = 1.0

    def ask(self, seconds: float) -> object:
        self.asked.append(seconds)
        return self.answer


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assignors.discovery.choosing.search", search_patiently)


@pytest.fixture
def choice(caplog: pytest.LogCaptureFixture) -> Choice:
    caplog.set_level(logging.INFO, "rackward.assignors")
    return Choice(Memory(), Remarks())


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def test_a_rack_that_is_given_is_taken_as_it_is(
    choice: Choice, caplog: pytest.LogCaptureFixture
) -> None:
    assert choice.chosen_rack(" a ", {"RACKWARD_RACK": "b"}) == " a "
    assert choice.chosen_rack("", {"RACKWARD_RACK": "b"}) == ""
    assert said(caplog) == []


@pytest.mark.parametrize("rack", [3, b"a", ["a"], object()])
def test_what_is_no_rack_is_refused(choice: Choice, rack: object) -> None:
    with pytest.raises(InvalidOptionError, match="give a string, discover"):
        choice.chosen_rack(rack, {})


def test_nothing_found_and_nothing_wrong_is_not_spoken_of(
    choice: Choice, caplog: pytest.LogCaptureFixture
) -> None:
    assert choice.chosen_rack(None, {}) is None
    assert said(caplog) == []


def test_where_it_is_from_is_said_once(choice: Choice, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        assert choice.chosen_rack(None, {"RACKWARD_RACK": "a "}) == "a"
    assert said(caplog) == [("INFO", "this consumer is in rack a, says RACKWARD_RACK")]


def test_what_went_wrong_is_said_once_and_nothing_is_raised(
    choice: Choice, caplog: pytest.LogCaptureFixture
) -> None:
    environ = {"RACKWARD_RACK_FILE": "/no/such", "RACKWARD_RACK": "<html>"}
    for _ in range(2):
        assert choice.chosen_rack(None, environ) is None
    assert said(caplog) == [
        (
            "WARNING",
            "no rack from RACKWARD_RACK, which answered with what looks like a page or a document;"
            " this consumer starts without one",
        ),
        (
            "WARNING",
            "no rack from file /no/such, which cannot be read (No such file or directory): mount"
            " it, or name another; this consumer starts without one",
        ),
    ]


def test_a_source_is_spoken_of_again_when_it_had_a_rack_meanwhile(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [0.0]
    choice, source = Choice(Memory(lambda: now[0]), Remarks()), Counted(7)
    for answer, warnings in ((7, 1), ("", 1), ("a", 1), (7, 2), (7, 2)):
        source.answer = answer
        choice.chosen_rack(source, {})
        assert len([each for each in said(caplog) if each[0] == "WARNING"]) == warnings
        now[0] += KEPT_SECONDS


def test_a_failure_beside_a_rack(choice: Choice, caplog: pytest.LogCaptureFixture) -> None:
    environ = {"RACKWARD_RACK_FILE": "/no/such", "RACKWARD_RACK_FROM": "command:echo a"}
    assert choice.chosen_rack(None, environ) == "a"
    (warning, _), (info, message) = (each for each in said(caplog))
    assert (warning, info) == ("WARNING", "INFO")
    assert said(caplog)[0][1].endswith("; this consumer is in that of command echo")
    assert message == "this consumer is in rack a, says command echo"


def test_a_source_that_is_given_is_asked_alone(choice: Choice) -> None:
    with MetadataServer() as server:
        environ = {"RACKWARD_RACK": "b"}
        assert (
            choice.chosen_rack(discover("gce", endpoint=server.url, timeout=2.5), environ)
            == "europe-west1-b"
        )
    assert choice.chosen_rack(Counted(None), environ) is None


def test_one_start_asks_once(choice: Choice) -> None:
    # Two assignors of a consumer, made by two calls of discover.
    with MetadataServer() as server:
        for _ in range(2):
            source = discover("gce", endpoint=server.url, timeout=2.5)
            assert choice.chosen_rack(source, {}) == "europe-west1-b"
        assert len(server.asked) == 1
        assert (
            choice.chosen_rack(discover("azure", endpoint=server.url, timeout=2.5), {})
            == "westeurope-2"
        )


def test_another_environment_is_another_question(choice: Choice, tmp_path: Path) -> None:
    file = tmp_path / "zone"
    file.write_text("from-file")
    assert choice.chosen_rack(None, {"RACKWARD_RACK": "a"}) == "a"
    assert choice.chosen_rack(None, {"RACKWARD_RACK": "b"}) == "b"
    assert choice.chosen_rack(None, {"RACKWARD_RACK_FILE": str(file)}) == "from-file"


def test_answers_are_kept_for_a_while_failures_too() -> None:
    now = [0.0]
    choice = Choice(Memory(lambda: now[0]), Remarks())
    for source in (Counted("a"), Counted(7), Counted(None)):
        for moment, asked in ((0.0, 1), (KEPT_SECONDS - 1, 1), (KEPT_SECONDS, 2)):
            now[0] = moment
            choice.chosen_rack(source, {})
            assert len(source.asked) == asked
        now[0] = 0.0
        choice = Choice(Memory(lambda: now[0]), Remarks())


def test_the_memory_is_bounded() -> None:
    memory = Memory()
    for number in range(100):
        memory.recall(number, lambda: "a")
    assert len(memory._entries) == 16


def test_who_asks_the_same_meanwhile_waits_and_who_asks_another_does_not() -> None:
    memory, asking, let_go = Memory(), threading.Event(), threading.Event()
    asked: list[str] = []

    def slowly() -> str:
        asked.append("slow")
        asking.set()
        assert let_go.wait(PATIENCE)
        return "a"

    answers: list[str | None] = []

    def thread(ask: Callable[[], str]) -> threading.Thread:
        made = threading.Thread(target=lambda: answers.append(memory.recall("same", ask)))
        made.start()
        return made

    first = thread(slowly)
    assert asking.wait(PATIENCE)
    second = thread(slowly)
    assert memory.recall("another", lambda: "b") == "b"
    let_go.set()
    for each in (first, second):
        each.join(PATIENCE)
    assert (answers, asked) == (["a", "a"], ["slow"])


def test_an_interrupted_question_is_asked_again() -> None:
    memory = Memory()

    def interrupted() -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        memory.recall("same", interrupted)
    assert memory.recall("same", lambda: "a") == "a"
