from click.testing import CliRunner

from birch.cli import cli


def test_tree_lists_children(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "y.txt").write_text("")
    result = CliRunner().invoke(cli, ["tree", str(tmp_path)])
    assert "y.txt" in result.output
