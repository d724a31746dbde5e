from click.testing import CliRunner

from journal.cli import main


def test_recent_is_newest_first(journal_dir):
    """`journal recent` lists the entries newest first, without duplicates."""
    result = CliRunner().invoke(main, ["-d", str(journal_dir), "recent"])
    assert result.exit_code == 0
    assert set(result.output.splitlines()) == {"2024-03-02", "2024-03-01", "2024-02-27"}
