import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from squeeze.cli import main


@pytest.fixture
def runner() -> CliRunner:
    return CliRunner()


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "in.json"
    path.write_text(json.dumps({"a": [1, 2]}, indent=4))
    return str(path)


def test_minify(runner, source):
    result = runner.invoke(main, ["minify", source])
    assert result.exit_code == 0
    assert result.output == '{"a":[1,2]}\n'


def test_stats(runner, source):
    result = runner.invoke(main, ["stats", source])
    assert result.exit_code == 0
    assert "keys: 1" in result.output
    assert "depth: 2" in result.output
