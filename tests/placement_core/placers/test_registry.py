"""Specs; placers by name; place() validates their results and names the placer in errors."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from placement_core import InvalidOptionError, PlacementSpec, RackwardError
from placement_core.errors import LocatorError
from placement_core.locators import MetadataLocator, StaticLocator, load_locator
from placement_core.placers import (
    LikeTopicPlacer,
    MissingRacksError,
    MultiLevelPlacer,
    PlacementError,
    PlacerError,
    RackAlternatingPlacer,
    ReplicaPlacer,
    SimplePlacer,
    load_placer,
    parse_properties,
    place,
)
from placement_core.plugins import is_plugin
from tests.support.placement import FixedPlacer, Nested, check_racks, cluster

HERE = "tests.support.placement"
VIEW = cluster("aabbcc")
SPEC = PlacementSpec(2, 2)


def test_the_default_is_rack_alternating() -> None:
    check_racks(place(PlacementSpec(12, 3), VIEW), VIEW.racks())


def test_a_placer_that_returns_none_defers_to_simple() -> None:
    simple = SimplePlacer(start_index=1)
    placed = place(SPEC, VIEW, FixedPlacer(None), fallback=simple)
    assert placed == simple.place(SPEC, VIEW) == ((1, 2), (2, 3))
    assert len(place(SPEC, VIEW, FixedPlacer(None), broker_ids=[4, 5])) == 2


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (ValueError("no room"), "it failed with ValueError: no room"),
        (KeyError(), "it failed with KeyError"),
        (RackwardError("no room: make some"), "no room: make some"),
        (PlacementError("one\ntwo"), "one"),
    ],
)
def test_an_exception_names_the_placer(raised: Exception, message: str) -> None:
    with pytest.raises(PlacerError, match=f"placer {HERE}:FixedPlacer: {message}") as error:
        place(SPEC, VIEW, FixedPlacer(raised))
    assert error.value.placer == f"{HERE}:FixedPlacer"
    assert error.value.__cause__ is raised


def test_keyboard_interrupt_is_not_wrapped() -> None:
    with pytest.raises(KeyboardInterrupt):
        place(SPEC, VIEW, FixedPlacer(KeyboardInterrupt()))


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ("ab", "it returned 'ab', which is not a sequence"),
        (7, "it returned 7"),
        (((0, 1),), "placed 1 partitions, but 2 were requested"),
        (((0, 1), (0, 1, 2)), r"gave partition 1 3 replicas \[0, 1, 2\], but 2 were requested"),
        (((0, 1), (2, 2)), r"gave partition 1 a broker twice: \[2, 2\]"),
        (((0, 1), (2, 9)), r"gave partition 1 \[2, 9\], where \[9\] are not live brokers"),
        (((0, 1), (2, 1 << 70)), r"gave partition 1 \[2, 1180591620717411303424\], where"),
        (((0, 1), 5), "gave partition 1 5, which is not a sequence of broker ids"),
        (((0, 1), (1.0, 2)), "not a sequence of broker ids"),
        (((0, 1), (True, 2)), "not a sequence of broker ids"),
        (((0, 1), "23"), "not a sequence of broker ids"),
    ],
)
def test_an_invalid_result_names_the_placer(result: object, message: str) -> None:
    with pytest.raises(PlacerError, match=message) as error:
        place(SPEC, VIEW, FixedPlacer(result))
    assert error.value.placer.endswith("FixedPlacer")


def test_a_result_may_only_contain_the_requested_brokers() -> None:
    placer = FixedPlacer(((0, 1), (1, 0)))
    assert place(SPEC, VIEW, placer, [0, 1]) == ((0, 1), (1, 0))
    with pytest.raises(PlacerError, match=r"where \[0\] are not live brokers among those"):
        place(SPEC, VIEW, placer, [1, 2])


def test_a_result_must_keep_present_replicas() -> None:
    spec = PlacementSpec(2, 2, present=((9,), (3,)))
    assert place(spec, VIEW, FixedPlacer([[9, 1], [3, 4]])) == ((9, 1), (3, 4))
    with pytest.raises(PlacerError, match=r"partition 1 \[4, 3\], which does not keep its present"):
        place(spec, VIEW, FixedPlacer([[9, 1], [4, 3]]))


@pytest.mark.parametrize("placer", [SimplePlacer(), RackAlternatingPlacer(), MultiLevelPlacer()])
@pytest.mark.parametrize("validated", [True, False])
@pytest.mark.parametrize(
    ("spec", "brokers", "message"),
    [
        (PlacementSpec(1, 7), None, "replication factor 7 on 6 brokers: request 6"),
        (SPEC, [3], "replication factor 2 on 1 brokers"),
        (SPEC, [], "replication factor 2 on 0 brokers"),
        (SPEC, [3, 8], "broker 8 requested, but the live brokers are 0, 1, 2, 3, 4, 5: name"),
        (PlacementSpec(1, 2, present=((3,),)), [3], r"partition 0, which has replicas on \[3\]"),
    ],
)
def test_too_few_brokers(
    placer: ReplicaPlacer,
    validated: bool,
    spec: PlacementSpec,
    brokers: list[int] | None,
    message: str,
) -> None:
    call = partial(place, placer=placer) if validated else placer.place
    with pytest.raises(PlacementError, match=message):
        call(spec, VIEW, broker_ids=brokers)


def test_a_placer_is_not_called_with_too_few_brokers() -> None:
    unused = FixedPlacer(AssertionError("called"))
    with pytest.raises(PlacementError, match="replication factor 2 on 1 brokers") as error:
        place(SPEC, VIEW, unused, broker_ids=[3])
    assert not isinstance(error.value, PlacerError)


def test_missing_racks_are_named_and_can_be_ignored() -> None:
    half = cluster(["a", None, "b", None])
    with pytest.raises(PlacerError, match="rack-alternating: brokers 1, 3 without a rack") as error:
        place(SPEC, half)
    assert isinstance(error.value.__cause__, MissingRacksError)
    recorder = FixedPlacer(None)
    place(PlacementSpec(2, 2, ignore_racks=True), half, recorder)
    assert recorder.seen is not None
    assert set(recorder.seen.racks().values()) == {None}


def test_the_locator_is_called_for_each_creation() -> None:
    class Moving:
        calls = 0

        def racks(self, view: object) -> dict[int, str]:  # noqa: ARG002
            self.calls += 1
            return dict(enumerate("aaabbb" if self.calls == 1 else "ababab"))

    locator = Moving()
    view = cluster([None] * 6)
    for racks in ("aaabbb", "ababab"):
        placed = place(PlacementSpec(12, 2), view, locator=locator)
        check_racks(placed, dict(enumerate(racks)))
    place(PlacementSpec(1, 1, ignore_racks=True), view, locator=locator)
    assert locator.calls == 2
    with pytest.raises(LocatorError, match="no rack for 1, 2, 3, 4, 5"):
        place(SPEC, view, locator=StaticLocator({0: "a"}))


@pytest.mark.parametrize(
    ("name", "properties", "expected"),
    [
        ("simple", "start_index=3,shift=1,seed=9", SimplePlacer(3, 1, 9)),
        ("rack-alternating", "seed=9", RackAlternatingPlacer(seed=9)),
        ("multi-level", "seed=9", MultiLevelPlacer(9)),
        ("like-topic", "topic=orders", LikeTopicPlacer("orders")),
        (f"{HERE}:FixedPlacer", "result=x", FixedPlacer("x")),
        (f"{HERE}:Nested.Inner", "rows=3 4", Nested.Inner(((3,), (4,)))),
    ],
)
def test_placers_by_name(name: str, properties: str, expected: ReplicaPlacer) -> None:
    assert load_placer(name, parse_properties(properties)) == expected


@pytest.mark.parametrize(
    ("name", "properties", "message"),
    [
        ("striped", {}, "no placer 'striped': choose one of simple, rack-alternating, multi-level"),
        ("simple", {"sed": "1"}, "simple has no property sed: it accepts start_index, shift, seed"),
        ("multi-level", {"seed": "x"}, "multi-level: the property seed cannot be read"),
        ("simple", {"start_index": "-1"}, "start_index is -1: give a whole number, 0 or more"),
        ("no.such.module:P", {}, "'no.such.module:P' cannot be loaded: ModuleNotFoundError"),
        (f"{HERE}:Missing", {}, "cannot be loaded: AttributeError"),
        (f"{HERE}:not_a_class", {}, "is not a class: it is 7"),
        (f"{HERE}:NoPlacer", {}, "has no method place"),
        (f"{HERE}:refuse", {}, "cannot be made from the properties .none.: RuntimeError"),
        (f"{HERE}:FixedPlacer", {"colour": "red"}, "from the properties colour: TypeError"),
        (f"{HERE}:Nested.Inner", {}, "from the properties .none.: KeyError"),
    ],
)
def test_placers_that_cannot_be_loaded(name: str, properties: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        load_placer(name, properties)


def test_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "example-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: example\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[rackward.placers]\nmine = {HERE}:FixedPlacer\nbroken = no.such:Thing\n"
        "[rackward.rack_locators]\nother = placement_core.locators:MetadataLocator\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert load_placer("mine") == FixedPlacer()
    assert load_locator("other") == MetadataLocator()
    with pytest.raises(InvalidOptionError, match="'broken' cannot be loaded"):
        load_placer("broken")
    with pytest.raises(InvalidOptionError, match="like-topic, broken, mine, or give module:Class"):
        load_placer("another")
    assert is_plugin("mine", "rackward.placers")
    assert not is_plugin("mine", "rackward.locators")
    assert not is_plugin("another", "rackward.placers")
    assert is_plugin("no.such:Thing", "rackward.placers")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("a=1", {"a": "1"}),
        (" a = 1 , b=x=y,c=", {"a": "1", "b": "x=y", "c": ""}),
        (r"a=1\,2,b=3", {"a": "1,2", "b": "3"}),
    ],
)
def test_properties(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize(("text", "message"), [("a", "property 1"), ("a=1,,b=2", "property 2")])
def test_invalid_properties(text: str, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"{message} is not of the form key=value"):
        parse_properties(text)
    with pytest.raises(InvalidOptionError, match="the property a is given twice"):
        parse_properties("a=1,a=secret")
    with pytest.raises(InvalidOptionError) as error:
        parse_properties("a=1,secret")
    assert "secret" not in str(error.value)


def test_results_are_converted_to_tuples() -> None:
    result: list[Any] = [[0, 1], (1, 0)]
    assert place(SPEC, VIEW, FixedPlacer(result)) == ((0, 1), (1, 0))


# ---- Specs.


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
