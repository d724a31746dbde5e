import pytest

from colours import mix


def test_old_names_warn():
    with pytest.warns(Warning):
        mix("gray", "red")
