def test_letters_are_kept(post):
    """Letters are kept in turn."""
    post("send", "ada", "hello")
    assert "hello" in post("letters", "ada").out
