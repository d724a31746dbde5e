from click.testing import CliRunner

from forge.cli import main


def test_summary_line(project):
    """The last line is `built N targets in S.SSs`.

    N is the number of targets; S.SS is the time taken, with two
    decimals, and of course differs from run to run.
    """
    result = CliRunner().invoke(main, ["build", str(project)])
    assert result.exit_code == 0
    assert result.output.splitlines()[-1] == "built 3 targets in 0.02s"
