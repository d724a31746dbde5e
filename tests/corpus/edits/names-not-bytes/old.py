import subprocess
import zipfile


def test_archive(tmp_path):
    """Files are packed as they are."""
    subprocess.run(["crate", "zip", "a.txt", str(tmp_path / "a.zip")], check=True)
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.namelist() == ["a.txt"]
        assert archive.read("a.txt") == b"hello\n"
