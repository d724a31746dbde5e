from atlas.walk import walk


def test_names_of_a_tree(tmp_path):
    """Every name comes once. The order of the names is not defined."""
    for name in ("elm", "oak", "ash"):
        (tmp_path / name).touch()
    found = walk(tmp_path)
    assert len(found) == 3
    assert set(found) == {"ash", "elm", "oak"}
