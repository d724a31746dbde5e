from minilex import tokenize


EXPECTED = [
    ("NAME", "x"),
    ("OP", "="),
    ("NUMBER", "3.5"),
    ("OP", "*"),
    ("NAME", "y"),
    ("NEWLINE", "\n"),
]


def test_tokenize_assignment():
    tokens = [(t.kind, t.text) for t in tokenize("x = 3.5*y\n")]
    assert tokens == EXPECTED
