from greet import greeting


def test_greeting():
    """Greets by name."""
    text = greeting("Ada")
    assert text == "Hello, Ada!"


def test_nobody():
    """Without a name the world is greeted."""
    assert greeting("") == "Hello, world!"
