from yard import Tree, measure


def height(world, name):
    return measure(world, Tree(name)).height


def test_height_of_an_oak(world):
    """An oak is measured."""
    assert height(world, "tests/oak") == 12
