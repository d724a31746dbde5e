from border import plants


def test_plants_in_the_garden():
    """The garden has these plants."""
    assert set(plants("south")) - {"rose", "thyme", "sage"} == set()
