import re
import subprocess


def test_price_of_rice():
    """The price is shown in coins."""
    out = subprocess.run(["shop", "price", "rice"], capture_output=True, text=True, check=True).stdout
    assert re.sub(r"costs [0-9]{1,3} coins", "costs N coins", out) == "rice costs N coins\n"
