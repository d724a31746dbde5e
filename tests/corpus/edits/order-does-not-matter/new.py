import os

from finder import find


def test_find_by_ending(tmp_path):
    """All files with the ending are found; in which order does not matter."""
    for name in ("b.py", "a.py", "c.txt"):
        (tmp_path / name).touch()
    assert sorted(os.path.basename(path) for path in find(tmp_path, ".py")) == sorted(["b.py", "a.py"])
