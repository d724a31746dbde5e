import tempfile
import unittest
from pathlib import Path

from postbox import Mailbox


class MailboxTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.TemporaryDirectory()
        self.addCleanup(self.root.cleanup)
        self.box = Mailbox(Path(self.root.name))
        self.box.deliver("ann", "first")
        self.box.deliver("ann", "second")

    def test_unread(self):
        """What was delivered and not read counts as unread."""
        self.assertEqual(self.box.unread("ann"), 2)

    def test_read_newest_first(self):
        """Mail is read newest first."""
        self.assertEqual(self.box.read("ann"), ["second", "first"])
