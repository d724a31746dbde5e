import json

import pytest
from click.testing import CliRunner

from ledgerly.cli import main


@pytest.fixture
def runner() -> CliRunner:
    return CliRunner()


def make_book(path):
    path.write_text(json.dumps({"rent": -900, "salary": 2400}))
    return str(path)


def test_balance_report(runner, tmp_path):
    """`ledgerly balance` prints one line per account and the total."""
    result = runner.invoke(main, ["balance", make_book(tmp_path / "book.json")])
    assert result.exit_code == 0
    # column widths depend on the terminal, so don't compare them
    assert "total" in result.output.lower()


def test_empty_book(runner, tmp_path):
    """An empty book has a total of nothing."""
    book = tmp_path / "book.json"
    book.write_text("{}")
    result = runner.invoke(main, ["balance", str(book)])
    assert result.exit_code == 0
    assert result.output == "total     0\n"
