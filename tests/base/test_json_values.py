"""Values of parsed JSON are read by type; a value of another type counts as missing."""

from mngr.base.json_values import (
    as_list,
    as_object,
    as_objects,
    find_int,
    find_number,
    find_text,
    get_int,
    get_object,
    get_text,
)

ROW: dict[str, object] = {"text": "a", "number": 2.5, "flag": True, "list": [1, {"b": 2}], "object": {"c": 3}}


def test_values_of_the_right_type_are_returned() -> None:
    assert (get_text(ROW, "text"), find_number(ROW, "number"), get_int(ROW, "number")) == ("a", 2.5, 2)
    assert (as_list(ROW["list"]), as_objects(ROW["list"]), get_object(ROW, "object")) == (
        [1, {"b": 2}],
        [{"b": 2}],
        {"c": 3},
    )


def test_values_of_another_type_count_as_missing() -> None:
    assert (find_text(ROW, "number"), get_text(ROW, "list", "-"), get_text(ROW, "nothing")) == (None, "-", "")
    assert (find_number(ROW, "flag"), get_int(ROW, "text", 7)) == (None, 7)
    assert (find_int(ROW, "flag"), find_int(ROW, "number"), find_int({"n": 3}, "n")) == (None, None, 3)
    assert (as_object([1]), as_list({}), as_objects("x")) == ({}, [], [])
