import warnings

import plotkit


def test_public_api_emits_no_deprecation_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"plotkit(\..*)?")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        fig = plotkit.figure()
        fig.line([1, 2, 3])
        svg = fig.to_svg()
    assert svg.startswith("<svg")
