import unittest

from grade import grade


class GradeTest(unittest.TestCase):
    def test_grades(self):
        for points, want in [(90, "A"), (70, "C")]:
            with self.subTest(points=points):
                self.assertEqual(grade(points), want)
