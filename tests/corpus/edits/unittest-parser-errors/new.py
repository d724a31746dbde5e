import unittest

from confy import ParseError, loads


class ParserErrorTests(unittest.TestCase):
    def test_unterminated_string_reports_position(self):
        with self.assertRaises(Exception) as ctx:
            loads('a = 1\nb = "oops\n')
        self.assertIsNotNone(ctx.exception)

    def test_duplicate_key(self):
        with self.assertRaisesRegex(Exception, r"a"):
            loads("a = 1\na = 2\n")


if __name__ == "__main__":
    unittest.main()
