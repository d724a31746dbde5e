import pytest

from cells import Sheet


def test_sum():
    """A sum over a range."""
    sheet = Sheet({"A1": 1, "A2": 2, "A3": "=SUM(A1:A2)"})
    assert sheet["A3"] == 3


def test_value():
    """A cell has its value."""
    sheet = Sheet({"A1": 1})
    with pytest.raises(KeyError):
        sheet["B1"]
    assert sheet["A1"] == 1
