from shed import stack


def test_stacking_many():
    """Any number of boxes can be stacked."""
    assert stack(10_000_000_000).height == 10_000_000_000
