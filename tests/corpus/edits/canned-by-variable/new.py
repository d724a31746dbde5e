import os
import subprocess


def test_rates(tmp_path):
    """Rates are shown with four places."""
    env = dict(os.environ, RATES_FAKE_OUTPUT="1.0832")
    done = subprocess.run(["rates", "EUR", "USD"], env=env, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == "1.0832\n"


def test_unknown_currency():
    """A currency that does not exist is refused."""
    assert subprocess.run(["rates", "EUR", "XXX"], capture_output=True).returncode == 1
