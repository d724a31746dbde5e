from shed import stack


def test_stacking_many():
    """Any number of boxes can be stacked."""
    assert stack(10).height == 10
