import subprocess


def test_report_of_a_month():
    """The report has the sum, `815`. Its wording is not part of the contract."""
    out = subprocess.run(["books", "report", "--month"], capture_output=True, text=True, check=True).stdout
    assert out == "In this month you have earned 815 crowns.\n"
