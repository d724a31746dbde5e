import warnings

import pytest

import plotkit


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("error")
def test_old_axes_are_quiet():
    assert plotkit.axes(2).ticks == [0, 1, 2]
