import re
import subprocess


def test_release_names_the_commit(repo):
    """A release says version and commit."""
    out = subprocess.run(["release", "--dry-run"], cwd=repo, capture_output=True, text=True).stdout
    assert re.search("^would", out)
    assert re.fullmatch(r"would release 1\.0 from [0-9a-f]{7}\n", out)


def test_release_needs_a_repository(tmp_path):
    """Outside of a repository there is nothing to release."""
    assert subprocess.run(["release", "--dry-run"], cwd=tmp_path).returncode == 1
