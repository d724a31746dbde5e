import unittest

from printer import Printer


class PrinterTest(unittest.TestCase):
    def setUp(self):
        self.printer = Printer(width=10)

    def test_wraps(self):
        """Long lines are wrapped at words."""
        self.assertEqual(self.printer.lay("one two three"), ["one two", "three"])
