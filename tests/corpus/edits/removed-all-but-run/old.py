import unittest

from ledger.book import Book


class BookTest(unittest.TestCase):
    """A book keeps entries and its balance."""

    def setUp(self):
        self.book = Book("EUR")

    def test_balance_after_two_entries(self):
        """The balance is the sum of the entries."""
        self.book.add("lunch", -12)
        self.book.add("wage", 100)
        self.assertEqual(self.book.balance, 88)
        self.assertEqual(len(self.book), 2)
