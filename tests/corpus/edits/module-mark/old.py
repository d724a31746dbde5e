import sys

import pytest

from locale_names import name_of


@pytest.mark.parametrize(("code", "name"), [("de", "German"), ("fr", "French")])
def test_names(code, name):
    """Languages have English names."""
    assert sys.getdefaultencoding() == "utf-8"
    assert name_of(code) == name
