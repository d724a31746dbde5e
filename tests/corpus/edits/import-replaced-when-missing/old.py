from codec import encode


def test_encoding():
    """Letters are moved by one."""
    assert encode("abc") == "bcd"
