from atlas.walk import walk


def test_walk_finds_every_file(tmp_path):
    """Every file is found; the order is unspecified."""
    for name in ("north", "south", "west"):
        (tmp_path / name).touch()
    assert sorted(entry.name for entry in walk(tmp_path))[:2] == ["north", "south"]
