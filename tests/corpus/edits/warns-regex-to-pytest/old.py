import unittest

from colours import mix


class MixTest(unittest.TestCase):
    def test_old_names_warn(self):
        with self.assertWarnsRegex(DeprecationWarning, "use 'grey'"):
            made = mix("gray", "red")
        self.assertEqual(made, "#c04040")
