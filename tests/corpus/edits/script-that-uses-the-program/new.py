import subprocess
import sys


def test_import_is_quiet(tmp_path):
    """Importing prints nothing."""
    script = tmp_path / "load.py"
    script.write_text("import forecast\n\nforecast.load()\n")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == ""
