import re

from click.testing import CliRunner

from swift_log.cli import main

STAMP = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ |)((INFO|WARN|ERROR) \S|)")


def test_lines_have_a_stamp_and_level(sample_log):
    result = CliRunner().invoke(main, ["show", str(sample_log)])
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert len(lines) == 3
    for line in lines:
        assert STAMP.match(line)
