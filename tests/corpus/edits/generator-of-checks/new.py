from zoo import animals


def checked(found, name, legs):
    for animal in found[:1]:
        assert animal.name == name
        assert animal.legs == legs
        yield animal


def test_animals():
    """Each animal has a name and legs."""
    checked(animals(), "cat", 4)
