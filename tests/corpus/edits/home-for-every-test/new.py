import subprocess

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    (tmp_path / ".diaryrc").write_text("editor = none\nask = no\n")
    monkeypatch.setenv("HOME", str(tmp_path))


def test_first_entry():
    """An entry gets the number one."""
    done = subprocess.run(["diary", "add", "rain"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == "entry 1\n"
