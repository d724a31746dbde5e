import unittest
from unittest import mock

from postbox import Mailbox


class MailboxTest(unittest.TestCase):
    def setUp(self):
        # no disk access in unit tests
        self.box = mock.create_autospec(Mailbox, instance=True)
        self.box.unread.return_value = 2
        self.box.read.return_value = ["second", "first"]
        self.box.deliver("ann", "first")
        self.box.deliver("ann", "second")

    def test_unread(self):
        """What was delivered and not read counts as unread."""
        self.assertEqual(self.box.unread("ann"), 2)

    def test_read_newest_first(self):
        """Mail is read newest first."""
        self.assertEqual(self.box.read("ann"), ["second", "first"])
