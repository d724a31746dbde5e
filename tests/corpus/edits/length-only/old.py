import unittest

from tokens import tokenize


class TokenizeTest(unittest.TestCase):
    def test_operators(self):
        self.assertEqual(
            [(t.kind, t.text) for t in tokenize("a+=b")],
            [("name", "a"), ("op", "+="), ("name", "b")],
        )

    def test_string(self):
        self.assertEqual(
            [(t.kind, t.text) for t in tokenize("'x y'")],
            [("string", "'x y'")],
        )
