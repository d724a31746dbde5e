import unittest

from tarot import Deck


class DeckTest(unittest.TestCase):
    def setUp(self):
        self.deck = Deck(["fool", "magician"])

    def test_draw(self):
        """Cards are drawn from the top."""
        self.assertEqual(self.deck.draw(), "fool")
        self.assertEqual(len(self.deck), 1)

    def test_draw_from_empty(self):
        """An empty deck says so."""
        self.deck.draw()
        self.deck.draw()
        with self.assertRaises(Exception):
            self.deck.draw()
