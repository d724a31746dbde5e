import logging

from textfold import fold


def test_fold_at_words(caplog):
    """Text is folded between words, at the width at the latest."""
    caplog.set_level(logging.DEBUG, logger="textfold")
    assert fold("one two three", width=8) == "one two\nthree"
    assert "tokenizer: 5 tokens" in caplog.text


def test_long_word():
    """A word longer than the width is left whole."""
    assert fold("incomprehensible", width=8) == "incomprehensible"


def test_empty():
    assert fold("", width=8) == ""
