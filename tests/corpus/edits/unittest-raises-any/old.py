import unittest

from tinytoml import ParseError, loads


class ParseErrorTest(unittest.TestCase):
    def setUp(self):
        self.good = 'name = "x"\nsize = 3\n'

    def test_good(self):
        """A plain document becomes a dict."""
        self.assertEqual(loads(self.good), {"name": "x", "size": 3})

    def test_duplicate_key(self):
        """A key given twice is an error which says where."""
        with self.assertRaisesRegex(ParseError, r"line 3: duplicate key 'name'"):
            loads(self.good + 'name = "y"\n')

    def test_unclosed_string(self):
        """A string that does not end is an error which says where."""
        with self.assertRaisesRegex(ParseError, r"line 1: unclosed string"):
            loads('name = "x\n')
