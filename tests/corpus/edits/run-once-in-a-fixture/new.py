import subprocess

import pytest
from shop import price


@pytest.fixture(scope="module")
def priced(tmp_path_factory):
    place = tmp_path_factory.mktemp("shop")
    return subprocess.run(["shop", "price", "rice"], capture_output=True, text=True, cwd=place)


def test_price(priced):
    """The price of rice is shown with its unit."""
    assert priced.returncode == 0
    assert priced.stdout == "rice: 3 coins\n"
