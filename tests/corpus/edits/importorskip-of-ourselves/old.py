import io

import pytest

from csvtools.stream import Reader, Writer


def test_reader_skips_comments():
    """Lines that begin with # are no rows."""
    rows = list(Reader(io.StringIO("# about\na,b\n1,2\n")))
    assert rows == [{"a": "1", "b": "2"}]


@pytest.mark.parametrize("text", ["a,b", 'say "hi"', "two\nlines"])
def test_writer_quotes(text):
    """What needs quotes gets them, and is read back as it was."""
    target = io.StringIO()
    Writer(target, fields=["x"]).write({"x": text})
    target.seek(0)
    assert list(Reader(target)) == [{"x": text}]
