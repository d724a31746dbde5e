import pytest

from schema import Invalid, validate


def test_missing_field():
    try:
        validate({"name": "x"}, required=["name", "age"])
    except Invalid as exc:
        assert exc.field == "age"
        assert str(exc) == "missing field: age"
    else:
        pytest.fail("validate accepted a record without age")
