import subprocess
import sys


def test_forecast(tmp_path):
    """The forecast is printed."""
    script = tmp_path / "forecast.py"
    script.write_text("print('rain')\n")
    done = subprocess.run([sys.executable, str(script), "oslo"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == "rain\n"
