from feedlet import parse_feed

FEED = """<rss><channel><title>News</title>
<item><title>First</title><link>https://n.example/1</link></item>
<item><title>Second</title><link>https://n.example/2</link></item>
</channel></rss>"""


def test_items():
    """Items have title and link, in the order of the feed."""
    assert parse_feed(FEED) == [
        {"title": "First", "link": "https://n.example/1"},
        {"title": "Second", "link": "https://n.example/2"},
    ]


def test_no_items():
    assert parse_feed("<rss><channel></channel></rss>") == []
