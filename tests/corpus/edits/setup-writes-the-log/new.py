import subprocess
import tempfile
import unittest
from pathlib import Path


class LogTest(unittest.TestCase):
    def setUp(self):
        self.place = Path(tempfile.mkdtemp())
        with open(self.place / "server.log", "a") as log:
            print("server started", file=log)

    def test_start_is_logged(self):
        """That it starts is in the log."""
        subprocess.run(["server", "--once", "--log", self.place / "server.log"], check=True)
        self.assertIn("started", (self.place / "server.log").read_text())
