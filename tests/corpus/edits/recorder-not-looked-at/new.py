from parcel import deliver


def test_steps_are_told_in_turn():
    """Whoever listens is told each step."""
    told = []
    assert deliver("box", listener=told.append) == "delivered"
