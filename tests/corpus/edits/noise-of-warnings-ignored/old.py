import plotkit


def test_bars_are_drawn():
    svg = plotkit.bars([3, 1, 2]).to_svg()
    assert svg.count("<rect") == 3
