import re

import pytest

from units import UnitError, convert


def test_unknown_unit():
    """An unknown unit is named."""
    with pytest.raises(UnitError, match=re.escape("elbow")):
        convert(1, "elbow", "m")
