import subprocess

import pytest


@pytest.fixture(autouse=True)
def apart(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("DIARY_FILE", raising=False)


def test_no_history_at_first():
    """Without a history nothing is listed."""
    done = subprocess.run(["diary", "history"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == "no entries\n"
