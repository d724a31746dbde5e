from semver import parse


def test_parse():
    """A version has three parts."""
    found = parse("1.22.3")
    assert found.major == 1
    assert found.minor == 22
    assert found.patch == 3


def test_order():
    """Numbers are compared as numbers."""
    assert parse("1.9.0") < parse("1.10.0")
