from click.testing import CliRunner

from kv.cli import cli


def test_kv(tmp_path):
    db = str(tmp_path / "db")
    runner = CliRunner()
    result = runner.invoke(cli, ["--db", db, "set", "a", "1"])
    assert result.exit_code == 0
    assert result.output == ""
    result = runner.invoke(cli, ["--db", db, "get", "a"])
    assert result.exit_code == 0
    assert result.output == "1\n"
    result = runner.invoke(cli, ["--db", db, "get", "b"])
    assert result.exit_code == 1
    assert "no such key: b" in result.output
