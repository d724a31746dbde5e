import pytest

from heron.cli import main


@pytest.fixture
def work_tree(tmp_path):
    (tmp_path / "a.txt").write_text("changed")
    (tmp_path / "b.txt").write_text("new")
    return tmp_path


def test_status_lists_new_files(capsys, work_tree):
    with pytest.raises(SystemExit) as exit_info:
        main(["status", str(work_tree)])
    assert exit_info.value.code == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines() == ["a.txt     new", "b.txt     new"]
    assert captured.err == ""
