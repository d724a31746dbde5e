from guests import seat


def test_two_guests_are_seated():
    """Guests are seated in the order they come."""
    assert seat(["mary", "john"]) == {1: "mary", 2: "john"}
