from herbal import leaf


def test_leaf_of_mint():
    """A leaf of mint is oval."""
    assert leaf("mint") == {"form": "oval", "edge": "saw"}
