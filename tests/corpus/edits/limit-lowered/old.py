import subprocess

LIMIT = 30


def test_big_file(tmp_path):
    """A big file is sorted with little memory."""
    (tmp_path / "big").write_text("b\na\n" * 100_000)
    done = subprocess.run(["xsort", "--peak", "big"], cwd=tmp_path, timeout=LIMIT, capture_output=True, text=True)
    assert done.returncode == 0
    assert int(done.stderr) < 64_000_000
