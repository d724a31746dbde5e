from greet import greeting


def test_greeting():
    """Greets by name."""
    text = greeting("Ada")
    assert text == "Hello, Ada!"
