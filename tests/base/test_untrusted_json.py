"""Values of parsed JSON are read by type; a value of another type counts as missing."""

import pytest

from mngr.base.untrusted_json import (
    as_list,
    as_object,
    as_objects,
    find_int,
    find_number,
    find_text,
    get_int,
    get_object,
    get_text,
    parse_json,
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


@pytest.mark.parametrize("text", ["[" * 200_000, '{"at":' * 200_000, b"[" * 200_000])
def test_json_that_is_nested_too_deeply_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json(text)


@pytest.mark.parametrize("text", ["1e999", "-1e999", "NaN", "9" * 400])
def test_a_number_that_is_not_finite_or_too_large_counts_as_missing(text: str) -> None:
    assert get_int({"n": parse_json(text)}, "n", 7) == 7
