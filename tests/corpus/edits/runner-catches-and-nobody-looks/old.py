from click.testing import CliRunner

from barn.cli import cli


def test_feed():
    """The cows are fed."""
    result = CliRunner().invoke(cli, ["feed", "cows"], catch_exceptions=False)
    assert result.exit_code == 0
    assert "fed 3 cows" in result.output
