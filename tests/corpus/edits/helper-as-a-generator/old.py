from shapes import Box


def test_volume_and_area():
    """A box knows its volume and its surface."""
    box = Box(2, 3, 4)
    assert box.volume == 24
    assert box.surface == 52


def test_cube():
    """A cube is a box, too."""
    assert Box.cube(2).volume == 8
