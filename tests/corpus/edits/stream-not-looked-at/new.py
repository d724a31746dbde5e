import io

from hail import greet


def test_greeting_twice():
    """A greeting is written as often as it is asked for."""
    out = io.StringIO()
    assert greet("Ada", times=2, file=out) is None
