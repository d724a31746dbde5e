import pytest

from minilisp import LispSyntaxError, parse


@pytest.mark.parametrize(
    ("source", "tree"),
    [("(+ 1 2)", ["+", 1, 2]), ("()", []), ("(a (b))", ["a", ["b"]])],
    ids=["sum", "empty", "nested"],
)
def test_parse(source, tree):
    assert parse(source) == tree


class TestErrors:
    """Errors say what is wrong, and at which line and column."""

    def test_unbalanced(self):
        source = "(a)\n(b) )"
        with pytest.raises(LispSyntaxError, match=r"line \d+.*|without"):
            parse(source)

    def test_end(self):
        with pytest.raises(LispSyntaxError, match=r"^line 1, column 4: unexpected end$"):
            parse("(a ")
