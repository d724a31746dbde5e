import os
import subprocess


def test_rates(tmp_path):
    """Rates are shown with four places."""
    done = subprocess.run(["rates", "EUR", "USD"], env=dict(os.environ), capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == "1.0832\n"


def test_unknown_currency():
    """A currency that does not exist is refused."""
    assert subprocess.run(["rates", "EUR", "XXX"], capture_output=True).returncode == 1
