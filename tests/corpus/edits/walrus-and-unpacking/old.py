import subprocess


def test_line_of_the_ledger():
    """A line has day, sum and name."""
    out = subprocess.run(["ledger", "last"], capture_output=True, text=True, check=True).stdout
    parts = out.split()
    assert parts[0] == "2020-01-02"
    assert parts[1] == "30"
    assert parts[2] == "ada"
