def test_letters_arrive(post):
    """Letters arrive."""
    post("send", "ada", "hello")
    assert "hello" in post("echo", "hello").out
