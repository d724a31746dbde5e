import subprocess


def test_report():
    """The report names the total on standard output."""
    done = subprocess.run(["ledger", "report"], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.returncode == 0
