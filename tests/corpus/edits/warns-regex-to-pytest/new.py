import pytest

from colours import mix


def test_old_names_warn():
    with pytest.warns(DeprecationWarning, match="use 'grey'"):
        made = mix("gray", "red")
    assert made == "#c04040"
