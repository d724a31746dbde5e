import subprocess

import pytest


@pytest.fixture
def listing(tmp_path):
    subprocess.run(["todo", "add", "milk"], cwd=tmp_path, check=True)
    subprocess.run(["todo", "add", "eggs"], cwd=tmp_path, check=True)
    return subprocess.run(["todo", "list"], cwd=tmp_path, capture_output=True, text=True).stdout


def test_numbers(listing):
    """Entries are numbered from 1."""
    assert listing.splitlines() == ["1 milk", "2 eggs"]


def test_ends_with_a_newline(listing):
    """The last line is a whole line."""
    assert listing.endswith("eggs\n")
