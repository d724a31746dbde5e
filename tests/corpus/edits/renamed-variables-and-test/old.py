import pytest

from heron.cli import main


@pytest.fixture
def d(tmp_path):
    (tmp_path / "a.txt").write_text("changed")
    (tmp_path / "b.txt").write_text("new")
    return tmp_path


def test_1(capsys, d):
    with pytest.raises(SystemExit) as e:
        main(["status", str(d)])
    assert e.value.code == 0
    o = capsys.readouterr()
    assert o.out.splitlines() == ["a.txt     new", "b.txt     new"]
    assert o.err == ""
