import subprocess


def test_export(tmp_path):
    """Rows are exported."""
    subprocess.run(["shop", "export", str(tmp_path / "out.csv")], check=True)
    assert (tmp_path / "out.csv").read_text() == "rice,3\njam,4\n"
