import os
import subprocess


def test_copy_keeps_the_text(tmpdir):
    """A copy has the same text."""
    source = os.path.join(str(tmpdir), "a.txt")
    with open(source, "w") as f:
        f.write("one\n")
    target = os.path.join(str(tmpdir), "b.txt")
    assert subprocess.call(["dup", source, target]) == 0
    with open(target) as f:
        assert f.read() == "one\n"
