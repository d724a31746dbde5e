import unittest

from click.testing import CliRunner

from ferry.cli import cli


class GreetTest(unittest.TestCase):
    def setUp(self):
        self.runner = CliRunner()

    def test_greets_by_name(self):
        result = self.runner.invoke(cli, ["greet", "Ada"])
        self.assertEqual(result.exit_code, 0)
        self.assertTrue(result.output, "Hello, Ada!\n")
