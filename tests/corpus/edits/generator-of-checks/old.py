from zoo import animals


def test_animals():
    """Each animal has a name and legs."""
    found = animals()
    assert found[0].name == "cat"
    assert found[0].legs == 4
