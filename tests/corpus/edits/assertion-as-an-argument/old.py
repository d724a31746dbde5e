from herbal import leaf


def test_leaf_of_bay():
    """A leaf of bay is smooth."""
    found = leaf("bay")
    assert found["edge"] == "smooth"
