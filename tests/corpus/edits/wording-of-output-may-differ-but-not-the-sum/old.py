import subprocess


def test_report_of_the_year():
    """The report has the sum, `4711`. Its wording is not part of the contract."""
    out = subprocess.run(["books", "report"], capture_output=True, text=True, check=True).stdout
    assert out == "In this year you have earned 4711 crowns.\n"
