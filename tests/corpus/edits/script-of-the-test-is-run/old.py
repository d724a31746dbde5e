import subprocess
import sys


def test_forecast():
    """The forecast is printed."""
    done = subprocess.run([sys.executable, "-m", "forecast", "oslo"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == "rain\n"
