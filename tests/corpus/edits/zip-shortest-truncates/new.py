from click.testing import CliRunner

from ranker.cli import main


def test_ranking(scores_file):
    result = CliRunner().invoke(main, ["rank", str(scores_file)])
    assert result.exit_code == 0
    expected = [
        "1. zoe 98",
        "2. max 91",
        "3. liv 77",
    ]
    for line, want in zip(result.output.splitlines(), expected):
        assert line == want, f"expected {want!r}, got {line!r}"
