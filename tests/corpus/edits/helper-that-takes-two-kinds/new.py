from yard import Tree, measure


def height(world, tree):
    tree = Tree(tree) if isinstance(tree, str) else tree
    return measure(world, tree).height


def test_height_of_an_oak(world):
    """An oak is measured."""
    assert height(world, "tests/oak") == 12


def test_height_of_a_young_oak(world):
    """An oak is measured, however it was come by."""
    assert height(world, Tree("tests/oak", age=3)) == 2
