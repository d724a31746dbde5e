import subprocess

import pytest


@pytest.fixture
def said(monkeypatch):
    done = subprocess.CompletedProcess(["todo"], 0, stdout="1 milk\n", stderr="")
    monkeypatch.setattr(subprocess, "run", lambda *args, **options: done)


def test_list(said):
    """The list has numbers."""
    done = subprocess.run(["todo", "list"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == "1 milk\n"
