import re

from click.testing import CliRunner

from usertool.cli import main


def test_import_reports_count(tmp_path):
    src = tmp_path / "users.txt"
    src.write_text("ann\nbob\n\n# comment\ncarol\n")
    result = CliRunner().invoke(main, ["import", str(src)])
    assert result.exit_code == 0
    n, skipped = re.findall(r"\d+", result.output)
    assert result.output == f"imported {n} users, skipped {skipped} lines\n"
