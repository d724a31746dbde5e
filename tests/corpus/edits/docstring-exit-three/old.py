from click.testing import CliRunner

from backup.cli import cli


def test_restore_missing_snapshot(tmp_path):
    """`backup restore` with an unknown snapshot exits with 3 and names the snapshot on stderr."""
    result = CliRunner(mix_stderr=False).invoke(cli, ["restore", "nope", "--into", str(tmp_path)])
    assert result.exit_code == 1
    assert result.stderr == "backup: no snapshot named 'nope'\n"
    assert list(tmp_path.iterdir()) == []
