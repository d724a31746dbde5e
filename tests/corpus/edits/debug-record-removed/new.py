from textfold import fold


def test_fold_at_words():
    """Text is folded between words, at the width at the latest."""
    assert fold("one two three", width=8) == "one two\nthree"


def test_long_word():
    """A word longer than the width is left whole."""
    assert fold("incomprehensible", width=8) == "incomprehensible"


def test_empty():
    assert fold("", width=8) == ""
