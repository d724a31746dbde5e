import subprocess


def test_price_of_beans():
    """The price is shown in coins."""
    out = subprocess.run(["shop", "price", "beans"], capture_output=True, text=True, check=True).stdout
    assert out == "beans cost 12 coins\n"
