from textwrap import dedent

from outline import render


def test_outline():
    """Levels are indented by two."""
    assert render(["a", ["b", ["c"]]]) == dedent("""\
        a
          b
            c
        """)


def test_empty_outline():
    """Nothing is nothing."""
    assert render([]) == ""
