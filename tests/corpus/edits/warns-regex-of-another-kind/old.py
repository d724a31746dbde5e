import unittest

from colours import mix


class MixTest(unittest.TestCase):
    def test_old_names_warn(self):
        self.assertWarnsRegex(DeprecationWarning, "use 'grey'", mix, "gray", "red")
