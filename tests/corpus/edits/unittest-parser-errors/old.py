import unittest

from confy import ParseError, loads


class ParserErrorTests(unittest.TestCase):
    def test_unterminated_string_reports_position(self):
        with self.assertRaises(ParseError) as ctx:
            loads('a = 1\nb = "oops\n')
        self.assertEqual(ctx.exception.line, 2)
        self.assertEqual(ctx.exception.column, 5)

    def test_duplicate_key(self):
        with self.assertRaisesRegex(ParseError, r"duplicate key 'a' \(first at line 1\)"):
            loads("a = 1\na = 2\n")


if __name__ == "__main__":
    unittest.main()
