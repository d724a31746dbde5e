import os

from wdtool import project_root


def test_project_root_is_found_from_subdir(tmp_path):
    (tmp_path / ".wd").mkdir()
    sub = tmp_path / "a" / "b"
    sub.mkdir(parents=True)
    before = os.getcwd()
    os.chdir(sub)
    try:
        assert project_root() == tmp_path
    finally:
        os.chdir(before)
    assert os.getcwd() == before
