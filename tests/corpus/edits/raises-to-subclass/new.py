import unittest

from store_api import Client, MissingKey


class ClientTest(unittest.TestCase):
    def test_missing_key(self):
        """A key that is not there is an error of its own."""
        client = Client()
        with self.assertRaises(MissingKey) as caught:
            client.get("nope")
        self.assertEqual(caught.exception.args, ("nope",))
        self.assertTrue(issubclass(MissingKey, KeyError))
