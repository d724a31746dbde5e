import warnings

from tables import Table


def rows():
    return [{"a": 1, "b": 2}, {"a": 3}]


def test_ragged_rows_warn():
    """Rows without some field are filled, with one warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = Table(rows())
    assert len(caught) == 1
    assert issubclass(caught[0].category, UserWarning)
    assert "row 2 has no b" in str(caught[0].message)
    assert table.column("b") == [2, None]
