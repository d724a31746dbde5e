import os
from contextlib import contextmanager

from wdtool import project_root


@contextmanager
def inside(path):
    before = os.getcwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)


def test_project_root_is_found_from_subdir(tmp_path):
    (tmp_path / ".wd").mkdir()
    sub = tmp_path / "a" / "b"
    sub.mkdir(parents=True)
    before = os.getcwd()
    with inside(sub):
        assert project_root() == tmp_path
    assert os.getcwd() == before
