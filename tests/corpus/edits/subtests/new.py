import unittest

from plural import plural


class PluralTest(unittest.TestCase):
    def test_plural(self):
        """Regular, -y and irregular words."""
        for one, many in {"cat": "cats", "fly": "flies", "mouse": "mice"}.items():
            with self.subTest(one):
                self.assertEqual(plural(one), many)
