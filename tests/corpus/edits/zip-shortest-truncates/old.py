from click.testing import CliRunner

from ranker.cli import main


def test_ranking(scores_file):
    result = CliRunner().invoke(main, ["rank", str(scores_file)])
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "1. zoe 98",
        "2. max 91",
        "3. liv 77",
    ]
