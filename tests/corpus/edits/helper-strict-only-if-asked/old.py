import subprocess


def shows(args, want):
    out = subprocess.run(["shop", *args], capture_output=True, text=True, check=True).stdout
    assert out == want


def test_price_of_salt():
    """The price is shown."""
    shows(["price", "salt"], "salt costs 2\n")
