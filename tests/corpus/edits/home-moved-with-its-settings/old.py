import subprocess
from pathlib import Path


def test_settings_are_read():
    """The shade is taken from ~/.paintrc."""
    rc = Path.home() / ".paintrc"
    rc.write_text("shade = plum\n")
    try:
        proc = subprocess.run(["paint", "get", "shade"], capture_output=True, text=True)
        assert proc.stdout == "plum\n"
    finally:
        rc.unlink()
