import json
import unittest
from pathlib import Path

from grade import grade


class GradeTest(unittest.TestCase):
    def test_grades(self):
        for path in Path(__file__).parent.glob("grades/*.json"):
            case = json.loads(path.read_text())
            with self.subTest(points=case["points"]):
                self.assertEqual(grade(case["points"]), case["want"])
