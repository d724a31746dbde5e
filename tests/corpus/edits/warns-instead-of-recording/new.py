import pytest

from tables import Table


def rows():
    return [{"a": 1, "b": 2}, {"a": 3}]


def test_ragged_rows_warn():
    """Rows without some field are filled, with one warning."""
    with pytest.warns(UserWarning, match="row 2 has no b") as caught:
        table = Table(rows())
    assert len(caught) == 1
    assert table.column("b") == [2, None]
