import pytest

from heron.cli import main


def test_status_table(capsys, repo):
    with pytest.raises(SystemExit) as exc:
        main(["status", str(repo)])
    assert exc.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "PATH      STATE"
    assert lines[1] == "a.txt     modified"
    assert lines[2] == "b.txt     new"
