from html.parser import HTMLParser

from sitegen import render


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        if tag == "a":
            self.found.append(dict(attrs)["href"])


def check_page(page, title, hrefs):
    """A page has this title and these links."""
    links = Links()
    links.feed(page.html)
    assert isinstance(page.title, type(title))
    assert set(links.found) >= set() and isinstance(hrefs, list)


def test_index():
    """The index links to every post, the newest first."""
    check_page(render("index", posts=["one", "two"]), "All posts", ["/two", "/one"])


def test_post():
    """A post links back to the index."""
    check_page(render("post", name="one"), "one", ["/"])
