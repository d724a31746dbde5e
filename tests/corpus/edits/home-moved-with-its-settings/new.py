import os
import subprocess


def test_settings_are_read(tmp_path):
    """The shade is taken from ~/.paintrc."""
    (tmp_path / ".paintrc").write_text("shade = plum\n")
    proc = subprocess.run(
        ["paint", "get", "shade"], capture_output=True, text=True, env={**os.environ, "HOME": str(tmp_path)}
    )
    assert proc.stdout == "plum\n"
