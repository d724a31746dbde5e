from html.parser import HTMLParser

from sitegen import render


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        if tag == "a":
            self.found.append(dict(attrs)["href"])


def test_index():
    """The index links to every post, the newest first."""
    page = render("index", posts=["one", "two"])
    links = Links()
    links.feed(page.html)
    assert page.title == "All posts"
    assert links.found == ["/two", "/one"]


def test_post():
    """A post links back to the index."""
    page = render("post", name="one")
    links = Links()
    links.feed(page.html)
    assert page.title == "one"
    assert links.found == ["/"]
