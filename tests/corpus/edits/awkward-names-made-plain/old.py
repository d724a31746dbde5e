import subprocess

import pytest


@pytest.mark.parametrize("name", ["two words.txt", "grün.txt", "-dash.txt"])
def test_any_name_can_be_packed(tmp_path, name):
    """Files of any name can be packed."""
    (tmp_path / name).write_text("x")
    done = subprocess.run(["crate", "pack", "--", name], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0
    assert name in done.stdout
