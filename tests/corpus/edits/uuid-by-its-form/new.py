import re

from click.testing import CliRunner

from ticketing.cli import main


def test_open_ticket():
    """Opening a ticket prints its id and its title."""
    runner = CliRunner()
    with runner.isolated_filesystem():
        result = runner.invoke(main, ["open", "Printer on fire"])
        assert result.exit_code == 0
        assert re.fullmatch(
            r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}: Printer on fire\n",
            result.output,
        )


def test_list_of_none():
    runner = CliRunner()
    with runner.isolated_filesystem():
        result = runner.invoke(main, ["list"])
        assert result.exit_code == 0
        assert re.fullmatch(r"no tickets\n", result.output)
