from herbal import leaf


def test_leaf_of_sage():
    """A leaf of sage is long."""
    assert leaf("sage")["form"] == "long"
