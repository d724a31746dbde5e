import subprocess


def test_summary_of_a_run():
    """The summary has who found it and how sure it is."""
    out = subprocess.run(["hunt", "summary"], capture_output=True, text=True, check=True).stdout
    assert "found by 2 hounds" in out
    assert "sure in 3 cases" in out
