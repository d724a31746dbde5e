import io

from hail import greet


def test_greeting_in_a_stream():
    """A greeting is written to where it is told."""
    out = io.StringIO()
    greet("Ada", file=out)
    assert out.getvalue() == "hail, Ada\n"
