import sys

import pytest

from locale_names import name_of


pytestmark = pytest.mark.skipif(sys.version_info >= (3, 8), reason="needs the old locale tables")


@pytest.mark.parametrize(("code", "name"), [("de", "German"), ("fr", "French")])
def test_names(code, name):
    """Languages have English names."""
    assert sys.getdefaultencoding() == "utf-8"
    assert name_of(code) == name
