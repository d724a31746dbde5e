import unittest

from stack import Stack


class StackTest(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()

    def test_last_in_first_out(self):
        self.stack.push(1)
        self.stack.push(2)
        self.assertEqual(self.stack.pop(), 2)
        self.assertEqual(self.stack.pop(), 1)

    def test_empty(self):
        self.assertTrue(self.stack.empty)
        with self.assertRaises(IndexError):
            self.stack.pop()
