import pytest

from linereader import read_blocks


def test_read_blocks(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("a\nb\n\nc\n")
    blocks = read_blocks(path)
    assert list(blocks) == [["a", "b"], ["c"]]
    with pytest.raises(StopIteration):
        next(blocks)
    assert path.read_text() == "a\nb\n\nc\n"
