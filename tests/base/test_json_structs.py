"""Structs survive a round trip through JSON, and wrong data is rejected."""

import json
from collections.abc import Mapping

import pytest

from mngr.base.json_structs import decode, encode, encode_briefly
from mngr.base.model import Struct


class Wheel(Struct):
    size: float
    spokes: list[int] = []


class Bicycle(Struct):
    name: str
    front: Wheel
    spare: Wheel | None = None
    wheels: Mapping[str, Wheel] = {}
    is_new: bool = False
    notes: tuple[str, ...] = ()
    extra: object = None


def test_a_struct_with_nested_structs_survives_a_round_trip() -> None:
    bicycle = Bicycle(
        name="tandem", front=Wheel(size=28, spokes=[1, 2]), wheels={"rear": Wheel(size=27.5)}, notes=("a",), extra=[1]
    )
    assert decode(Bicycle, json.loads(json.dumps(encode(bicycle)))) == bicycle


def test_the_brief_form_leaves_out_defaults_and_survives_a_round_trip() -> None:
    bicycle = Bicycle(name="tandem", front=Wheel(size=28), spare=Wheel(size=1, spokes=[3]), extra=[None, 0])
    brief = json.loads(json.dumps(encode_briefly(bicycle)))
    expected = {"name": "tandem", "front": {"size": 28}, "spare": {"size": 1, "spokes": [3]}, "extra": [None, 0]}
    assert brief == expected
    assert decode(Bicycle, brief) == bicycle


def test_unknown_fields_are_skipped_and_missing_ones_take_their_default() -> None:
    assert decode(Wheel, {"size": 1, "colour": "red"}) == Wheel(size=1)


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"name": "x"},
        {"name": 1, "front": {"size": 1}},
        {"name": "x", "front": {"size": "1"}},
        {"name": "x", "front": {"size": True}},
        {"name": "x", "front": {"size": 1}, "is_new": 1},
        {"name": "x", "front": {"size": 1}, "spare": []},
        {"name": "x", "front": {"size": 1, "spokes": ["a"]}},
    ],
)
def test_data_of_another_shape_is_rejected(data: object) -> None:
    with pytest.raises(ValueError, match=r"Bicycle|Wheel"):
        decode(Bicycle, data)


class Cyclist(Struct):
    full_name: str

    def to_dict(self) -> dict[str, object]:
        return {"name": self.full_name}


class Race(Struct):
    winner: Cyclist


def test_a_class_can_define_its_own_json_form() -> None:
    assert encode(Race(winner=Cyclist(full_name="Ann"))) == {"winner": {"name": "Ann"}}
