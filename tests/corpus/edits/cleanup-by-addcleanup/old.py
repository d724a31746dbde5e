import os
import shutil
import tempfile
import unittest

from packer import pack, unpack


class PackTest(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.mkdtemp()
        self.source = os.path.join(self.place, "source")
        os.mkdir(self.source)
        with open(os.path.join(self.source, "a.txt"), "w") as stream:
            stream.write("one")

    def tearDown(self):
        shutil.rmtree(self.place)

    def test_round_trip(self):
        """Unpacked is what was packed."""
        archive = os.path.join(self.place, "x.pack")
        pack(self.source, archive)
        target = os.path.join(self.place, "target")
        unpack(archive, target)
        self.assertEqual(os.listdir(target), ["a.txt"])
        with open(os.path.join(target, "a.txt")) as stream:
            self.assertEqual(stream.read(), "one")
