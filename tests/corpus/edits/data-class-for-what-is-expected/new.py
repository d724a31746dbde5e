from herbal import Leaf, leaf


def test_leaf_of_thyme():
    """A leaf of thyme is small."""
    assert leaf("thyme") == Leaf(form="oval", size=3)
