import re

from click.testing import CliRunner

from usertool.cli import main


def test_import_reports_count(tmp_path):
    src = tmp_path / "users.txt"
    src.write_text("ann\nbob\n\n# comment\ncarol\n")
    result = CliRunner().invoke(main, ["import", str(src)])
    assert result.exit_code == 0
    assert result.output == "imported 3 users, skipped 2 lines\n"
