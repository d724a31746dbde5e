from report import build


def test_build_of_a_report():
    """A report has the sum of the rows."""
    assert build([1, 2, 3])["sum"] == 6
