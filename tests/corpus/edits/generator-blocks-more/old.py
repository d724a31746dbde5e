from linereader import read_blocks


def test_read_blocks(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("a\nb\n\nc\n")
    assert list(read_blocks(path)) == [["a", "b"], ["c"]]
