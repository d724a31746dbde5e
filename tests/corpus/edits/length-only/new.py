import unittest

from tokens import tokenize


class TokenizeTest(unittest.TestCase):
    def test_operators(self):
        self.assertEqual(len(list(tokenize("a+=b"))), 3)

    def test_string(self):
        self.assertEqual(len(list(tokenize("'x y'"))), 1)
