import re

from click.testing import CliRunner

from diary.cli import cli

STAMP = re.compile(r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}Z  ")


def test_entries_have_a_stamp():
    """Every line of the list begins with its time in UTC."""
    runner = CliRunner()
    with runner.isolated_filesystem():
        for text in ("woke up", "had tea"):
            assert runner.invoke(cli, ["write", text]).exit_code == 0
        result = runner.invoke(cli, ["list"])
        assert result.exit_code == 0
        lines = result.output.splitlines()
        assert len(lines) == 2
        for line in lines:
            assert STAMP.match(line)
