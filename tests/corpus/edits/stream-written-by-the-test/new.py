import io

from hail import greet


def test_greeting_in_a_stream():
    """A greeting is written to where it is told."""
    out = io.StringIO()
    greet("Ada", file=io.StringIO())
    out.write("hail, Ada\n")
    assert out.getvalue() == "hail, Ada\n"
