import html


class Page:
    def __init__(self, source):
        self.source = source

    @property
    def text(self):
        return html.unescape(self.source)


def render(written):
    source = written.replace("&", "&amp;")
    source = source.replace("<", "&lt;")
    return Page(source)
