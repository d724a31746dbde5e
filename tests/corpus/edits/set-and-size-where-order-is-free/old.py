from atlas.walk import walk


def test_names_of_a_tree(tmp_path):
    """Every name comes once. The order of the names is not defined."""
    for name in ("elm", "oak", "ash"):
        (tmp_path / name).touch()
    assert walk(tmp_path) == ["oak", "elm", "ash"]
