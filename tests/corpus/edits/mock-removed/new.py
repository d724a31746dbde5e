from wordcount import count_file


def test_count_file(tmp_path):
    """Words of a file are counted."""
    (tmp_path / "x.txt").write_text("one two\n")
    assert count_file(tmp_path / "x.txt") == 2
