from tidy import tidy


def test_tidy(tmp_path):
    """Blanks at the ends of lines go."""
    (tmp_path / "in.txt").write_text("a  \nb\n")
    tidy(tmp_path / "in.txt", tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_text() == "a\nb\n"
