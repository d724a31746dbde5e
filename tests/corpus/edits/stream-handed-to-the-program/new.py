import io

from hail import greet


def test_greeting_is_written():
    """A greeting is written to where it is told."""
    out = io.StringIO()
    greet("Ada", file=out)
    assert out.getvalue() == "hail, Ada\n"
