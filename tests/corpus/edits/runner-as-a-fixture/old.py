import json

from click.testing import CliRunner

from squeeze.cli import main


def test_minify(tmp_path):
    runner = CliRunner()
    source = tmp_path / "in.json"
    source.write_text(json.dumps({"a": [1, 2]}, indent=4))
    result = runner.invoke(main, ["minify", str(source)])
    assert result.exit_code == 0
    assert result.output == '{"a":[1,2]}\n'


def test_stats(tmp_path):
    runner = CliRunner()
    source = tmp_path / "in.json"
    source.write_text(json.dumps({"a": [1, 2]}, indent=4))
    result = runner.invoke(main, ["stats", str(source)])
    assert result.exit_code == 0
    assert "keys: 1" in result.output
    assert "depth: 2" in result.output
