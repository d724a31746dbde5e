from click.testing import CliRunner

from barn.cli import cli


def barn(*args: str) -> str:
    result = CliRunner().invoke(cli, list(args), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_count_of_cows():
    """The cows are counted."""
    assert barn("count", "cows") == "3\n"


def test_count_of_hens():
    """The hens are counted."""
    assert barn("count", "hens") == "12\n"
