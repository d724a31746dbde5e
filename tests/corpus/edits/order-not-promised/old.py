from atlas.walk import walk


def test_walk_finds_all_files(tmp_path):
    """walk() yields each file exactly once. The order is unspecified
    and differs between file systems."""
    for name in ("c", "a", "b"):
        (tmp_path / name).touch()
    assert [e.path.name for e in walk(tmp_path)] == ["c", "a", "b"]
