import warnings

import plotkit


def test_public_api_emits_no_deprecation_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fig = plotkit.figure()
        fig.line([1, 2, 3])
        svg = fig.to_svg()
    assert svg.startswith("<svg")
