import pytest
from click.testing import CliRunner

from kv.cli import cli


@pytest.fixture
def kv(tmp_path):
    runner = CliRunner()
    return lambda *args: runner.invoke(cli, ["--db", str(tmp_path / "db"), *args])


def test_set_is_silent(kv):
    result = kv("set", "a", "1")
    assert result.exit_code == 0
    assert result.output == ""


def test_get_prints_value(kv):
    kv("set", "a", "1")
    result = kv("get", "a")
    assert result.exit_code == 0
    assert result.output == "1\n"


def test_get_unknown_key_fails(kv):
    kv("set", "a", "1")
    result = kv("get", "b")
    assert result.exit_code == 1
    assert "no such key: b" in result.output
