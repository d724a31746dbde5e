from parser_of_feeds import first_entry

FEED = "<feed><entry><title>One</title></entry></feed>"


def test_title_of_the_first_entry():
    """The title of the first entry is its text."""
    assert first_entry(FEED).title == "One"


def test_no_entry():
    """A feed without entries has no first one."""
    assert first_entry("<feed></feed>") is None
