from atlas.index import titles


def test_titles_of_a_file(tmp_path):
    """All titles of a file are listed. The order is that of the file and must not change."""
    page = tmp_path / "page.md"
    page.write_text("# Zebra\n# Ant\n# Mole\n")
    assert titles(page) == ["Zebra", "Ant", "Mole"]
