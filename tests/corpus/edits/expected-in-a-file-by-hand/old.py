import subprocess

from shop import price


def test_price(tmp_path):
    """The price of rice is shown with its unit."""
    done = subprocess.run(["shop", "price", "rice"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout == "rice: 3 coins\n"
