import subprocess
import sys


def test_import_is_quiet():
    """Importing prints nothing."""
    done = subprocess.run(
        [sys.executable, "-c", "import forecast; forecast.load()"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert done.stdout == ""
