import subprocess


def test_line_of_the_ledger():
    """A line has day, sum and name."""
    out = subprocess.run(["ledger", "last"], capture_output=True, text=True, check=True).stdout
    day, total, name = out.split()
    assert (day, total, name) == ("2020-01-02", "30", "ada")
