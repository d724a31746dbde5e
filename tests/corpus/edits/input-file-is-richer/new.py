import pytest

from tidy import tidy


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("a  \nb\n\tc \n")
    return path


def test_tidy(source, tmp_path):
    """Blanks at the ends of lines go."""
    tidy(source, tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_text() == "a\nb\n\tc\n"
