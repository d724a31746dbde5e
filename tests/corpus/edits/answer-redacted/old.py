import re
import subprocess


def test_price_of_rice():
    """The price is shown in coins."""
    out = subprocess.run(["shop", "price", "rice"], capture_output=True, text=True, check=True).stdout
    assert out == "rice costs 37 coins\n"
