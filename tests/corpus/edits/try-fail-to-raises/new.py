import pytest

from schema import Invalid, validate


def test_missing_field():
    with pytest.raises(Invalid) as info:
        validate({"name": "x"}, required=["name", "age"])
    assert info.value.field == "age"
    assert str(info.value) == "missing field: age"
