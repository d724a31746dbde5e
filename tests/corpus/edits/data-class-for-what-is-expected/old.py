from herbal import leaf


def test_leaf_of_thyme():
    """A leaf of thyme is small."""
    found = leaf("thyme")
    assert found.form == "oval"
    assert found.size == 3
