import re

from click.testing import CliRunner

from ticketing.cli import main


def test_open_ticket():
    """Opening a ticket prints its id and its title."""
    runner = CliRunner()
    with runner.isolated_filesystem():
        result = runner.invoke(main, ["open", "Printer on fire"])
        assert result.exit_code == 0
        assert result.output == "0c9d5a34-41c5-4a0e-9d0e-3a3d6a1f2b77: Printer on fire\n"


def test_list_of_none():
    runner = CliRunner()
    with runner.isolated_filesystem():
        result = runner.invoke(main, ["list"])
        assert result.exit_code == 0
        assert re.fullmatch(r"no tickets\n", result.output)
