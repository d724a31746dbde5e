from wordcount import count_file


def test_count_file(tmp_path):
    """Words of a file are counted."""
    (tmp_path / "x.txt").write_text("one two\n")
    assert count_file(tmp_path / "x.txt") == 2


def test_name_of_the_function():
    """The function says what it does in its help."""
    assert count_file.__doc__ == "How many words a file has."
