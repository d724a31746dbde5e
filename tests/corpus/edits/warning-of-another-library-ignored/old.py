import warnings

import plotkit


def test_figures_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svg = plotkit.figure().to_svg()
    assert svg.startswith("<svg")
