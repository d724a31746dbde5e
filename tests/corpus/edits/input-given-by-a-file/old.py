import subprocess


def test_words_are_counted(tmp_path):
    """Words are counted, whatever stands between them."""
    (tmp_path / "in.txt").write_text("one\ttwo \"three\"\n\nfour — five\n")
    done = subprocess.run(["wcount", str(tmp_path / "in.txt")], capture_output=True, text=True)
    assert done.stdout == "5\n"
