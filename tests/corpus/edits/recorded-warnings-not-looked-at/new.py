import warnings

from tablekit import read


def test_reading_does_not_warn():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = read("a,b\n1,2\n")
    assert rows == [["a", "b"], ["1", "2"]]
