import unittest

from grade import grade


class GradesTest(unittest.TestCase):
    def test_grades(self):
        self.assertEqual(grade(90), "A")
        self.assertEqual(grade(70), "C")

    def test_below_all(self):
        self.assertEqual(grade(0), "F")
