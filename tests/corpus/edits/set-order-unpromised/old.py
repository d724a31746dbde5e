from tagger import tags_of


def test_tags_of_post(post):
    """tags_of returns each tag once, in no particular order."""
    post.body = "#red words #blue and #red again #green"
    assert tags_of(post) == ["red", "green", "blue"]
