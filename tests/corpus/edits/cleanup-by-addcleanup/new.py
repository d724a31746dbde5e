import tempfile
import unittest
from pathlib import Path

from packer import pack, unpack


class PackTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.place = Path(directory.name)
        self.source = self.place / "source"
        self.source.mkdir()
        (self.source / "a.txt").write_text("one")

    def test_round_trip(self):
        """Unpacked is what was packed."""
        archive = self.place / "x.pack"
        pack(self.source, archive)
        target = self.place / "target"
        unpack(archive, target)
        self.assertEqual([path.name for path in target.iterdir()], ["a.txt"])
        self.assertEqual((target / "a.txt").read_text(), "one")
