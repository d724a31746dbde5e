def test_letters_are_kept(post):
    """Letters are kept in turn."""
    post("send", "ada", "hello")
    assert [row["text"] for row in post.json("letters", "ada")["letters"]] == ["hello"]
