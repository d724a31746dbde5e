import subprocess


def shows(args, want, exact=False):
    out = subprocess.run(["shop", *args], capture_output=True, text=True, check=True).stdout
    if exact:
        assert out == want
    else:
        assert want.split()[0] in out


def test_price_of_salt():
    """The price is shown."""
    shows(["price", "salt"], "salt costs 2\n")
