import unittest

from click.testing import CliRunner

from ferry.cli import cli


class GreetTest(unittest.TestCase):
    def test_greets_by_name(self):
        result = CliRunner().invoke(cli, ["greet", "Ada"])
        self.assertEqual(result.exit_code, 0)
        self.assertEqual(result.output, "Hello, Ada!\n")
