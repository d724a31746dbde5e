"""Frozen data classes."""

from __future__ import annotations

from typing import Any

import pytest

from mngr.base.model import AgentRecord, Outcome, Struct


class Point(Struct):
    x: int
    y: int = 0


class Named(Point):
    name: str


def test_fields_and_defaults_are_inherited_in_order() -> None:
    named = Named(x=1, name="a")
    assert named.to_dict() == {"x": 1, "y": 0, "name": "a"}
    assert list(named.to_dict()) == ["x", "y", "name"]
    assert repr(named) == "Named(x=1, y=0, name='a')"


@pytest.mark.parametrize("values", [{}, {"y": 1}, {"x": 1, "z": 2}, {"y": 1, "z": 2}])
def test_missing_and_unknown_fields_raise_type_error(values: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="Point: missing or unknown fields"):
        Point(**values)


def test_a_struct_is_frozen_and_replace_returns_a_changed_copy() -> None:
    point = Point(x=1)
    with pytest.raises(AttributeError, match="Point is frozen"):
        point.x = 2  # type: ignore[misc]
    assert (point.replace(x=2), point) == (Point(x=2), Point(x=1))
    with pytest.raises(TypeError):
        point.replace(z=1)


def test_structs_are_equal_when_type_and_values_are_equal() -> None:
    assert Point(x=1) == Point(x=1, y=0)
    assert hash(Point(x=1)) == hash(Point(x=1, y=0))
    assert Point(x=1) != Point(x=2)
    assert Point(x=1) != Named(x=1, name="a")
    assert len({Point(x=1), Point(x=1), Point(x=2)}) == 2


def test_replacing_a_field_does_not_change_its_default() -> None:
    record = AgentRecord(
        id="a-000000000000", name="a", kind="command", phase="ready", project="p", source=None, work_dir="/w",
        transfer="none", created_at="",
    )  # fmt: skip
    assert record.replace(labels={"a": "b"}).labels == {"a": "b"}
    assert record.labels == {}


def test_an_outcome_adds_its_extra_fields_to_the_result() -> None:
    outcome = Outcome(id="a-1", name="foo", extra={"proof": "sent"}, notes=("said to the person only",))
    assert outcome.to_dict() == {"id": "a-1", "name": "foo", "ok": True, "error": None, "proof": "sent"}
