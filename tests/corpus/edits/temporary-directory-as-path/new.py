import subprocess


def test_copy_keeps_the_text(tmp_path):
    """A copy has the same text."""
    source, target = tmp_path / "a.txt", tmp_path / "b.txt"
    source.write_text("one\n")
    assert subprocess.run(["dup", str(source), str(target)]).returncode == 0
    assert target.read_text() == "one\n"
