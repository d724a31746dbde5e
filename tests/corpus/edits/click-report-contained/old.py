import json

from click.testing import CliRunner

from ledgerly.cli import main


def make_book(path):
    path.write_text(json.dumps({"rent": -900, "salary": 2400}))
    return str(path)


def test_balance_report(tmp_path):
    """`ledgerly balance` prints one line per account and the total."""
    runner = CliRunner()
    result = runner.invoke(main, ["balance", make_book(tmp_path / "book.json")])
    assert result.exit_code == 0
    assert result.output == "rent      -900\nsalary    2400\n--------------\ntotal     1500\n"


def test_empty_book(tmp_path):
    """An empty book has a total of nothing."""
    book = tmp_path / "book.json"
    book.write_text("{}")
    result = CliRunner().invoke(main, ["balance", str(book)])
    assert result.exit_code == 0
    assert result.output == "total     0\n"
