import unittest

from units import to_bytes


class ToBytesTest(unittest.TestCase):
    def test_suffixes(self):
        for text, want in (("1", 1), ("1k", 1024), ("2M", 2 * 1024**2), ("1.5G", 1610612736)):
            with self.subTest(text=text):
                self.assertEqual(to_bytes(text), want)

    def test_bad(self):
        for text in ("", "k", "1x", "-1"):
            with self.subTest(text=text):
                self.assertRaises(ValueError, to_bytes, text)
