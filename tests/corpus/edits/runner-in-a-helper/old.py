from click.testing import CliRunner

from barn.cli import cli


def test_count_of_cows():
    """The cows are counted."""
    result = CliRunner().invoke(cli, ["count", "cows"])
    assert result.exit_code == 0, result.output
    assert result.output == "3\n"


def test_count_of_hens():
    """The hens are counted."""
    result = CliRunner().invoke(cli, ["count", "hens"])
    assert result.exit_code == 0, result.output
    assert result.output == "12\n"
