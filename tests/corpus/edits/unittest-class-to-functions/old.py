import os
import shutil
import tempfile
import unittest

from cellar.store import MissingKey, Store


class StoreTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp()
        self.store = Store.open(os.path.join(self.dir, "cellar.db"))

    def tearDown(self):
        self.store.close()
        shutil.rmtree(self.dir)

    def test_put_then_get(self):
        self.store.put("k", b"v")
        self.assertEqual(self.store.get("k"), b"v")

    def test_missing(self):
        with self.assertRaises(MissingKey):
            self.store.get("nope")

    def test_keys(self):
        self.store.put("a", b"1")
        self.store.put("b", b"2")
        self.assertIn("a", self.store.keys())
        self.assertIn("b", self.store.keys())
        self.assertEqual(len(self.store.keys()), 2)
