import warnings

import plotkit


def test_lines_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fig = plotkit.lines([1, 2])
    assert fig.points == 2
