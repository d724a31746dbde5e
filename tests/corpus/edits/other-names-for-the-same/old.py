from guests import seat


def test_two_guests_are_seated():
    """Guests are seated in the order they come."""
    assert seat(["foo", "bar"]) == {1: "foo", 2: "bar"}
