import subprocess


def test_fetch_saves_the_page(tmp_path):
    """`grab URL` saves the body to index.html and prints its size."""
    proc = subprocess.run(
        ["grab", "http://example.com/hello.txt"],
        cwd=tmp_path, capture_output=True, text=True, timeout=30,
    )
    assert proc.returncode == 0
    assert proc.stdout == "saved 6 bytes\n"
    assert (tmp_path / "index.html").read_bytes() == b"hello\n"
