from click.testing import CliRunner

from barn.cli import cli


def test_feed():
    """The cows are fed."""
    result = CliRunner().invoke(cli, ["feed", "cows"])
    assert result.output is not None
    assert "cows" in result.output
