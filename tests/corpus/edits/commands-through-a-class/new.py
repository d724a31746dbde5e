import subprocess

from shop import price


class Shop:
    def __init__(self, place):
        self.place = place

    def run(self, *words):
        return subprocess.run(["shop", *words], capture_output=True, text=True, cwd=self.place)


def test_price(tmp_path):
    """The price of rice is shown with its unit."""
    done = Shop(tmp_path).run("price", "rice")
    assert done.returncode == 0
    assert done.stdout == "rice: 3 coins\n"
